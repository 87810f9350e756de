"""CustomResourceDefinitions: what is served, and who has a name that several ask for."""

from typing import Any

import pytest

from tests.apiserver.api import (
    WIDGETS,
    Api,
    Object,
    definition,
    widget,
)
from tests.apiserver.test_writes import ONE, with_metadata

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_definition_is_accepted_and_served_at_once(api: Api) -> None:
    created = await api.done("POST", CRDS, definition(plural="gadgets", kind="Gadget"))
    conditions = [
        (condition["type"], condition["status"]) for condition in created["status"]["conditions"]
    ]
    assert conditions == [("NamesAccepted", "True"), ("Established", "True")]
    assert created["status"]["acceptedNames"] == {
        "plural": "gadgets",
        "kind": "Gadget",
        "singular": "gadget",
        "listKind": "GadgetList",
    }
    assert await api.names("/apis/example.com/v1/gadgets") == []


async def test_a_definition_can_be_changed_and_goes_with_what_it_defined(api: Api) -> None:
    path = f"{CRDS}/widgets.example.com"
    await api.done("POST", WIDGETS, widget("one"))
    changed = definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    await api.done("PATCH", path, {"spec": changed["spec"]})
    assert (await api.done("PATCH", ONE, {"spec": {"size": -1}}))["spec"]["size"] == -1
    await api.done("DELETE", path)
    assert (await api.refused("GET", WIDGETS))[0] == 404
    await api.done("POST", CRDS, definition())
    assert await api.names(WIDGETS) == []


def broken(**spec: Any) -> Object:
    crd = definition(plural="gadgets", kind="Gadget")
    return {
        **crd,
        "spec": {key: value for key, value in {**crd["spec"], **spec}.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("crd", "told"),
    [
        pytest.param(broken(names=None), "spec: Invalid value: KeyError('names')", id="no names"),
        pytest.param(
            broken(names=["x"]), "spec: Invalid value: TypeError", id="names that are a list"
        ),
        pytest.param(
            broken(versions=["v1"]),
            "spec: Invalid value: AttributeError",
            id="a version that is a text",
        ),
        pytest.param(broken(versions=[]), "spec: Invalid value: StopIteration", id="no version"),
        pytest.param(
            with_metadata(broken(), name="other.example.com"),
            'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group',
            id="a name that is not its own",
        ),
        pytest.param(
            {"metadata": {"name": "gadgets.example.com"}},
            "spec: Invalid value: KeyError",
            id="nothing",
        ),
    ],
)
async def test_definitions_that_can_not_be_served_are_refused(
    api: Api, crd: Object, told: str
) -> None:
    code, reason, message = await api.refused("POST", CRDS, crd)
    assert (code, reason) == (422, "Invalid")
    assert told in message
    assert (await api.refused("GET", "/apis/example.com/v1/gadgets"))[0] == 404
