"""PodGangs whose names are too long for labels."""

from typing import Any

import pytest

from app.facts.grove.template import Template, read_template
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.epochs import EPOCHS


def template(name: str, replicas: int = 1, /, **groups: tuple[int, int]) -> Template:
    """A set with scaling groups of these replicas and minAvailable, by name."""
    items: list[Any] = [
        {"name": group, "replicas": count, "minAvailable": least}
        for group, (count, least) in groups.items()
    ]
    spec = {"replicas": replicas, "template": {"podCliqueScalingGroups": items}}
    return read_template({"metadata": {"name": name}, "spec": spec})


def warning(name: str, length: int, more: int) -> list[str]:
    return [
        f'the name of PodGang "{name}" would be {length} characters long, {more} more than a label holds: Grove never creates its PodCliques. Use shorter names for the PodCliqueSet or its scaling groups'
    ]


SET = "s" * 26
GROUP = "g" * 12


@pytest.mark.parametrize(
    ("template", "warnings"),
    [
        pytest.param(template(SET, 1, **{GROUP: (3, 1)}), [], id="63 characters"),
        pytest.param(
            template(SET, 1, **{f"{GROUP}gg": (3, 1)}),
            warning(f"{SET}-0-<epoch>-{GROUP}gg-2", 65, 2),
            id="26 and 14 characters, as measured",
        ),
        pytest.param(
            template(SET, 1, **{GROUP: (11, 1)}),
            warning(f"{SET}-0-<epoch>-{GROUP}-10", 64, 1),
            id="an index of two digits",
        ),
        pytest.param(
            template(SET, 11, **{GROUP: (3, 1)}),
            warning(f"{SET}-10-<epoch>-{GROUP}-2", 64, 1),
            id="eleven replicas of the set",
        ),
        pytest.param(
            template(SET, 1, **{f"{GROUP}g": (1, 1), "g": (3, 1)}),
            warning(f"{SET}-0-<epoch>-{GROUP}g-1", 64, 1),
            id="the first replica that is added",
        ),
        pytest.param(template("s" * 41), [], id="an anchor of 63 characters"),
        pytest.param(
            template("s" * 42), warning(f"{'s' * 42}-0-<epoch>", 64, 1), id="one of 64 characters"
        ),
        pytest.param(template("s", 0), [], id="no replicas"),
    ],
)
def test_names(template: Template, warnings: list[str]) -> None:
    assert EPOCHS.set_warnings(template) == warnings
    assert BINDINGS.set_warnings(template) == []
