"""The errors of readers whose documents can't be used."""


class UnusableInput(ValueError):
    """The text contains no valid documents, or too many.

    The message states the reason and the place.
    """


class NoDocument(UnusableInput):
    """The text has no document. If it `has_text`, it has only empty Lists or comments."""

    def __init__(self, *, has_text: bool) -> None:
        super().__init__("there is no document in it")
        self.has_text = has_text
