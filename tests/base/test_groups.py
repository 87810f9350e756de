"""What is remembered is bounded, and the oldest is forgotten first."""

from collections import OrderedDict

from app.base.groups import remember


def test_the_values_that_came_first_are_forgotten() -> None:
    kept: OrderedDict[str, int] = OrderedDict()
    for number, name in enumerate(("a", "b", "a", "c")):
        remember(kept, name, number, most=2)

    assert list(kept.items()) == [("a", 2), ("c", 3)]
