"""Which object an address names.

Tests `app/console/page.py`.
"""

import pytest

from app.console.page import ref_in_address, reference
from app.facts.identity import Ref
from app.facts.kinds import QUEUE
from app.objects.resource import POD

KINDS = {"Pod": POD, "Queue": QUEUE}


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("Pod/default/a", Ref("Pod", "default", "a")),
        ("Queue//team", Ref("Queue", "", "team")),
        ("Pod/default/a/b", Ref("Pod", "default", "a/b")),
        ("Pod//a", None),
        ("Queue/default/team", None),
        ("Secret/default/a", None),
        ("Pod/default/", None),
        ("Pod/a", None),
        ("Pod", None),
        ("", None),
    ],
)
def test_an_object_is_named_by_its_kind_namespace_and_name(text: str, ref: Ref | None) -> None:
    assert reference(text, KINDS) == ref


@pytest.mark.parametrize("text", ["Pod/default/a", "Queue//team"])
def test_what_names_an_object_is_read_back(text: str) -> None:
    ref = reference(text, KINDS)
    assert ref is not None
    assert ref_in_address(ref) == text
