"""Errors about documents, files and arguments that can't be used."""


class UnusableInput(ValueError):
    """Documents, files or arguments of a person or client can't be used.

    The message has the reason and, if known, the file or the field.
    """


class NoDocument(UnusableInput):
    """A text has no document. `has_text` says whether it has anything else, such as comments."""

    def __init__(self, *, has_text: bool) -> None:
        super().__init__("no document found")
        self.has_text = has_text
