"""HTML as tests see it: elements with their attributes and text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.parts).split())


class Parsed(HTMLParser):
    """`elements` in the order of their start tags; the text of an element includes that of elements
    in it.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th", "tr", "option"):
            self._end_row(tag)
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.elements.append(element)
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(element)

    def _end_row(self, tag: str) -> None:
        """Cells end where the next one begins."""
        ends = {"option": ("option",), "tr": ("td", "th", "tr")}.get(tag, ("td", "th"))
        for element in reversed(self._open):
            if element.tag in ("table", "select", "tbody", "thead"):
                return
            if element.tag in ends:
                del self._open[self._open.index(element) :]

    def handle_endtag(self, tag: str) -> None:
        for element in reversed(self._open):
            if element.tag == tag:
                del self._open[self._open.index(element) :]
                return

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """`cls` is one of the classes; other attributes are compared whole."""
        cls = attributes.pop("cls", "")
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (not cls or cls in element.attributes.get("class", "").split())
            and all(
                element.attributes.get(name.replace("_", "-")) == value
                for name, value in attributes.items()
            )
        ]

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """The texts that people see, without what is hidden."""
        return [
            element.text
            for element in self.all(tag, **attributes)
            if "hidden" not in element.attributes
        ]

    @property
    def heading(self) -> str:
        return self.texts("h1")[0]
