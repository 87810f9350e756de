"""Compares whole messages with those that are recorded in a folder's `said.txt`, by test.

With the variable RECORD, a run of all tests of the folder in one process writes the file again:
`RECORD=1 .venv/bin/python -m pytest tests/rules`. Read the differences before you commit them.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
IS_RECORDING = "RECORD" in os.environ
_recorded: dict[Path, dict[str, list[str]]] = {}


class Said:
    """The messages of one test."""

    def __init__(self, node: pytest.Item) -> None:
        folder, _, self._name = node.nodeid.removeprefix("tests/").partition("/")
        self._file = TESTS / folder / "said.txt"
        self._told: list[str] | None = None

    def __call__(self, *messages: Iterable[object]) -> None:
        """Compare findings or warnings, all that one call of the code returns."""
        self._told = [*(self._told or []), *(str(each) for some in messages for each in some)]

    def check(self) -> None:
        if self._told is None:
            return
        lines = [line.replace("\n", "\\n") for line in self._told]
        if IS_RECORDING:
            _recorded.setdefault(self._file, {})[self._name] = lines
            write(self._file)
            return
        assert lines == of_file(self._file).get(self._name, []), "see tests/said.py"


def of_file(file: Path) -> dict[str, list[str]]:
    """The recorded messages by test. A test without messages is not in the file."""
    if file not in _recorded:
        paragraphs = file.read_text().removesuffix("\n").split("\n\n")
        titled = (paragraph.split("\n") for paragraph in paragraphs)
        _recorded[file] = {title: [line[2:] for line in lines] for title, *lines in titled}
    return _recorded[file]


def write(file: Path) -> None:
    paragraphs = (
        "\n".join([name, *(f"  {line}" for line in lines)])
        for name, lines in sorted(_recorded[file].items())
        if lines
    )
    file.write_text("\n\n".join(paragraphs) + "\n")
