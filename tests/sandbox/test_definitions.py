"""CustomResourceDefinitions: what is served, and who has a name that several ask for."""

from typing import Any

import pytest

from tests.sandbox.api import (
    WIDGETS,
    Api,
    Object,
    definition,
    widget,
)
from tests.sandbox.test_writes import ONE, with_metadata

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


def named(plural: str, **names: Any) -> Object:
    crd = definition(plural=plural, kind=plural.title())
    return {**crd, "spec": {**crd["spec"], "names": {**crd["spec"]["names"], **names}}}


def conditions_of(crd: Object) -> list[tuple[str, str, str, str]]:
    return [
        (condition["type"], condition["status"], condition["reason"], condition["message"])
        for condition in crd["status"]["conditions"]
    ]


ACCEPTED = [
    ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
]


@pytest.mark.parametrize(
    ("names", "reason", "name"),
    [
        pytest.param({"shortNames": ["gt", "g"]}, "ShortNamesConflict", "g", id="a short name"),
        pytest.param(
            {"shortNames": ["gadgets"]},
            "ShortNamesConflict",
            "gadgets",
            id="a short name that is a plural",
        ),
        pytest.param(
            {"singular": "g"}, "SingularConflict", "g", id="a singular that is a short name"
        ),
        pytest.param(
            {"kind": "Gadgets", "listKind": "ToolsList"}, "KindConflict", "Gadgets", id="a kind"
        ),
        pytest.param(
            {"listKind": "GadgetsList"}, "ListKindConflict", "GadgetsList", id="the kind of a list"
        ),
    ],
)
async def test_a_definition_with_a_name_that_is_taken_is_served_once_the_name_is_free(
    api: Api, names: Object, reason: str, name: str
) -> None:
    first = await api.done("POST", CRDS, named("gadgets", shortNames=["g"]))
    second = await api.done("POST", CRDS, named("tools", **names))
    assert conditions_of(first) == ACCEPTED
    assert conditions_of(second) == [
        ("NamesAccepted", "False", reason, f'"{name}" is already in use'),
        ("Established", "False", "NotAccepted", "not all names are accepted"),
    ]
    assert (await api.refused("GET", "/apis/example.com/v1/tools"))[0] == 404
    await api.done("DELETE", f"{CRDS}/gadgets.example.com")
    assert conditions_of(await api.done("GET", f"{CRDS}/tools.example.com")) == ACCEPTED
    assert await api.names("/apis/example.com/v1/tools") == []


async def test_a_definition_that_is_served_stays_so_if_it_asks_for_a_name_that_is_taken(
    api: Api,
) -> None:
    await api.done("POST", CRDS, named("gadgets", shortNames=["g"]))
    await api.done("POST", CRDS, named("tools"))
    patched = await api.done(
        "PATCH", f"{CRDS}/tools.example.com", {"spec": {"names": {"shortNames": ["g"]}}}
    )
    taken = ("NamesAccepted", "False", "ShortNamesConflict", '"g" is already in use')
    assert conditions_of(patched) == [taken, ACCEPTED[1]]
    assert "shortNames" not in patched["status"]["acceptedNames"]
    assert await api.names("/apis/example.com/v1/tools") == []


async def test_a_name_that_is_no_longer_asked_for_is_free(api: Api) -> None:
    await api.done("POST", CRDS, named("gadgets", shortNames=["g"]))
    await api.done("POST", CRDS, named("tools", shortNames=["g"]))
    await api.done(
        "PATCH", f"{CRDS}/gadgets.example.com", {"spec": {"names": {"shortNames": None}}}
    )
    assert conditions_of(await api.done("GET", f"{CRDS}/tools.example.com")) == ACCEPTED


async def test_a_definition_that_gives_a_refused_name_up_is_not_examined_again(api: Api) -> None:
    """As on a real API server (1.36): its names are then those that it has."""
    await api.done("POST", CRDS, named("gadgets", shortNames=["g"]))
    refused = await api.done(
        "POST", CRDS, named("tools", shortNames=["g"], listKind="ToolsList", singular="tools")
    )
    patched = await api.done(
        "PATCH", f"{CRDS}/tools.example.com", {"spec": {"names": {"shortNames": None}}}
    )
    assert patched["status"] == refused["status"]


async def test_names_of_another_group_are_free(api: Api) -> None:
    await api.done("POST", CRDS, named("gadgets", shortNames=["g"]))
    other = named("gadgets", shortNames=["g"])
    other["metadata"]["name"], other["spec"]["group"] = "gadgets.example.org", "example.org"
    assert conditions_of(await api.done("POST", CRDS, other)) == ACCEPTED


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
