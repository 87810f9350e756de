"""Errors about documents, files and arguments that can't be used."""


class UnusableInput(ValueError):
    """Documents, files or arguments of a person or client can't be used.

    The message states the reason, and the place if there is one.
    """


class NoDocument(UnusableInput):
    """The text has no document. If `has_text` is true, it has only comments or empty Lists."""

    def __init__(self, *, has_text: bool) -> None:
        super().__init__("there is no document in it")
        self.has_text = has_text
