"""Who controls an object."""

from typing import Any

import pytest

from app.objects.owners import controller_of, controller_uid

SET = {"kind": "PodCliqueSet", "name": "a", "uid": "u1", "apiVersion": "grove.io/v1alpha1"}
GANG = {"kind": "PodGang", "name": "b", "uid": "u2", "controller": True}


def owned(*references: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "ownerReferences": list(references)}}


@pytest.mark.parametrize(
    ("obj", "kind", "uid"),
    [
        pytest.param(owned(SET, GANG), "", "u2", id="the one that controls it"),
        pytest.param(owned(SET, GANG), "PodGang", "u2", id="of this kind"),
        pytest.param(owned(SET, GANG), "PodCliqueSet", "", id="of another kind"),
        pytest.param(owned(SET), "", "", id="nobody controls it"),
        pytest.param(owned({**SET, "controller": "true"}, "text"), "", "", id="odd references"),
        pytest.param({}, "", "", id="no metadata"),
    ],
)
def test_the_controller(obj: dict[str, Any], kind: str, uid: str) -> None:
    assert controller_uid(obj, kind) == uid
    controller = controller_of(obj)
    if not kind:
        assert (controller.uid if controller else "") == uid
