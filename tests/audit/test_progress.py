"""What an audit says while it runs."""

import io

from app.audit.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bar_on_a_terminal_that_can_be_taken_away() -> None:
    stream = Terminal()
    progress = Progress(stream, Clock())
    progress.show("PodGroup", 500, 4500)
    progress.show("PodGroup", 5000, 0)
    progress.clear()
    progress.clear()
    first, second, blank, end = stream.getvalue().split("\r")[1:]
    assert first.rstrip() == "PodGroup         [###                           ] 500 of 5,000"
    assert second.rstrip() == "PodGroup         [##############################] 5,000 of 5,000"
    assert (blank.strip(), end, len(first), len(blank)) == ("", "", 76, 76)


def test_without_a_total_there_is_no_bar() -> None:
    stream = Terminal()
    Progress(stream, Clock()).show("PodGroup", 500, None)
    assert stream.getvalue().strip() == "PodGroup         500"


def test_elsewhere_a_line_every_five_seconds() -> None:
    stream = io.StringIO()
    clock = Clock()
    progress = Progress(stream, clock)
    for clock.now, done in ((4.9, 500), (5.0, 1000), (9.9, 1500), (10.0, 2000)):
        progress.show("PodGroup", done, 3000 - done)
    progress.clear()
    assert stream.getvalue() == "PodGroup: 1,000 of 3,000\nPodGroup: 2,000 of 3,000\n"
