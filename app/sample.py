"""One figure of a scrape of metrics."""

from app.value import Value


class Sample(Value):
    """A figure with its labels. `name` has no prefix; the name of a counter ends with `_total`."""

    name: str
    text: str
    value: float
    labels: dict[str, str]
    is_counter: bool


def gauge(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a figure that rises and falls. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=False)


def counter(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a figure that only rises, and starts at 0 with the process. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=True)
