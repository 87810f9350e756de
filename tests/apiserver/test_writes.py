"""Create, update, patch and delete: what is stored, what is refused, and who owns which field."""

import re
from typing import Any

import pytest

from tests.apiserver.api import (
    CONFIGMAPS,
    JSON,
    NAMESPACE,
    WIDGETS,
    Api,
    Object,
    bare,
    configmap,
    definition,
    namespace,
    widget,
)

ONE = f"{WIDGETS}/one"
NAMESPACES = "/api/v1/namespaces"


def with_metadata(obj: Object, **metadata: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


# Create.


async def test_create_gives_identity_and_defaults_and_takes_what_only_the_server_writes(
    api: Api,
) -> None:
    sent = with_metadata(
        widget("one"), uid="mine", generation=9, creationTimestamp="2000-01-01T00:00:00Z"
    )
    created = await api.done("POST", WIDGETS, {**sent, "status": {"ready": True}})
    assert bare(created) == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": NAMESPACE, "generation": 1},
        "spec": {"size": 1, "colour": "grey"},
    }
    assert re.fullmatch(r"[0-9a-f-]{36}", created["metadata"]["uid"])
    assert created["metadata"]["creationTimestamp"] > "2026"
    assert await api.done("GET", ONE) == created


async def test_the_body_need_not_say_its_kind(api: Api) -> None:
    created = await api.done("POST", WIDGETS, {"metadata": {"name": "one"}, "spec": {"size": 2}})
    assert (created["apiVersion"], created["kind"]) == ("example.com/v1", "Widget")


@pytest.mark.parametrize(
    ("prefix", "shape"),
    [
        pytest.param(
            "run-", r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", id="five characters are added"
        ),
        pytest.param(
            "x" * 70,
            r"x{58}[bcdfghjklmnpqrstvwxz2456789]{5}",
            id="a long prefix is cut so that a label fits",
        ),
    ],
)
async def test_a_name_is_generated(api: Api, prefix: str, shape: str) -> None:
    sent = {"metadata": {"generateName": prefix}}
    first, second = [
        (await api.done("POST", CONFIGMAPS, sent))["metadata"]["name"] for _ in range(2)
    ]
    assert re.fullmatch(shape, first)
    assert first != second


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(
            widget("one", size=-1),
            (
                422,
                'Widget.example.com "one" is invalid: spec.size: Invalid value: -1: -1 is less than the minimum of 0',
            ),
            id="what its schema forbids",
        ),
        pytest.param(
            {**widget("one"), "kind": "Gadget"},
            (
                400,
                'Gadget in version "example.com/v1" cannot be handled as a Widget in version "example.com/v1"',
            ),
            id="another kind",
        ),
        pytest.param(
            with_metadata(widget("one"), namespace="other"),
            (400, "the namespace of the object (other) does not match that on the request (home)"),
            id="another namespace than the path's",
        ),
        pytest.param(
            with_metadata(widget("one"), resourceVersion="7"),
            (400, "resourceVersion should not be set on objects to be created"),
            id="a resourceVersion",
        ),
        pytest.param(
            {**widget("one"), "metadata": "one"},
            (400, "metadata must be an object"),
            id="metadata of no map",
        ),
        pytest.param(
            with_metadata(widget("one"), labels=["a"]),
            (400, "metadata: Expected `object | null`, got `array` - at `$.labels`"),
            id="odd labels",
        ),
        pytest.param(
            with_metadata(widget("one"), annotations={"a": 1}),
            (400, "metadata: Expected `str`, got `int` - at `$.annotations[...]`"),
            id="a number as an annotation",
        ),
        pytest.param(
            with_metadata(widget("one"), name=5),
            (400, "metadata: Expected `str | null`, got `int` - at `$.name`"),
            id="a number as a name",
        ),
        pytest.param(
            with_metadata(widget("one"), ownerReferences=["x"]),
            (400, "metadata: Expected `object`, got `str` - at `$.ownerReferences[0]`"),
            id="owners that are no objects",
        ),
        pytest.param(
            with_metadata(widget("one"), finalizers="x"),
            (400, "metadata: Expected `array | null`, got `str` - at `$.finalizers`"),
            id="finalizers that are no list",
        ),
        pytest.param(
            {"metadata": {}, "spec": {"size": 1}},
            (
                422,
                'Widget.example.com "" is invalid: metadata.name: Required value: name or generateName is required',
            ),
            id="no name at all",
        ),
    ],
)
async def test_creations_that_are_refused(api: Api, obj: Object, expected: tuple[int, str]) -> None:
    code, _, message = await api.refused("POST", WIDGETS, obj)
    assert (code, message) == expected
    assert await api.names(WIDGETS) == []


SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of at most 253 lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
LABEL = "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
QUALIFIED = "a qualified name must consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character with an optional DNS subdomain prefix and '/'"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        pytest.param(
            {"name": "One"},
            f'metadata.name: Invalid value: "One": {SUBDOMAIN}',
            id="a capital in the name",
        ),
        pytest.param(
            {"name": "one\n"},
            f'metadata.name: Invalid value: "one\\n": {SUBDOMAIN}',
            id="a newline in the name",
        ),
        pytest.param(
            {"name": "x" * 254},
            f'metadata.name: Invalid value: "{"x" * 254}": {SUBDOMAIN}',
            id="a name too long",
        ),
        pytest.param(
            {"labels": {"a": "b c"}},
            f'metadata.labels: Invalid value: "b c": {LABEL}',
            id="a label's value",
        ),
        pytest.param(
            {"labels": {"a": "x" * 64}},
            f'metadata.labels: Invalid value: "{"x" * 64}": {LABEL}',
            id="a label's value of 64 characters",
        ),
        pytest.param(
            {"labels": {"a/b/c": ""}},
            'metadata.labels: Invalid value: "a/b/c": a qualified name',
            id="a key",
        ),
        pytest.param(
            {"labels": {"a b": ""}},
            f'metadata.labels: Invalid value: "a b": {QUALIFIED}',
            id="a spaced key",
        ),
        pytest.param(
            {"labels": {"A_/b": ""}},
            f'metadata.labels: Invalid value: "A_/b": {QUALIFIED}',
            id="a key's prefix",
        ),
        pytest.param(
            {"annotations": {"a b": ""}},
            f'metadata.annotations: Invalid value: "a b": {QUALIFIED}',
            id="an annotation's key",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "uid": ""}]},
            'metadata.ownerReferences[0].uid: Invalid value: "": uid must not be empty',
            id="an owner without a uid",
        ),
        pytest.param(
            {
                "ownerReferences": [
                    {**OWNER, "controller": True},
                    {**OWNER, "uid": "2", "controller": True},
                ]
            },
            "Only one reference can have Controller set to true",
            id="two controllers",
        ),
    ],
)
async def test_metadata_is_checked_for_every_kind(api: Api, metadata: Object, told: str) -> None:
    code, reason, message = await api.refused(
        "POST", CONFIGMAPS, with_metadata(configmap("one"), **metadata)
    )
    assert (code, reason) == (422, "Invalid")
    assert told in message


async def test_metadata_that_is_just_right(api: Api) -> None:
    labels = {"a": "", "example.com/B_c.d-e": "x" * 63, "x" * 63: "A.b_c-d"}
    annotations = {"Example.com/Any": "what\never"}
    owners = [OWNER | {"controller": True}, OWNER | {"uid": "2", "controller": False}]
    sent = with_metadata(
        configmap("1.a-b"), labels=labels, annotations=annotations, ownerReferences=owners
    )
    assert bare(await api.done("POST", CONFIGMAPS, sent))["metadata"] == {
        **sent["metadata"],
        "namespace": NAMESPACE,
    }


async def test_names_of_rbac_are_free(api: Api) -> None:
    role = {"metadata": {"name": "system:a/b"}, "rules": []}
    code, _, message = await api.refused(
        "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role
    )
    assert (code, "may not contain '/'" in message) == (422, True)
    role["metadata"] = {"name": "system:Node"}
    assert (await api.done("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role))[
        "metadata"
    ]["name"]


async def test_unknown_fields_of_metadata_are_dropped_with_a_warning(api: Api) -> None:
    answer = await api.send("POST", CONFIGMAPS, with_metadata(configmap("one"), lables={"a": "b"}))
    assert bare(answer.json())["metadata"] == {"name": "one", "namespace": NAMESPACE}
    assert answer.headers["warning"] == '299 - "unknown field \\"metadata.lables\\""'


async def test_an_object_is_created_once(api: Api) -> None:
    await api.done("POST", WIDGETS, widget("one"))
    told = (409, "AlreadyExists", 'widgets.example.com "one" already exists')
    assert await api.refused("POST", WIDGETS, widget("one")) == told
    assert await api.refused("POST", WIDGETS, widget("one"), dryRun="All") == told


@pytest.mark.parametrize(
    ("validation", "code", "told"),
    [
        pytest.param("Strict", 400, "", id="Strict refuses"),
        pytest.param("Warn", 201, '299 - "unknown field \\"spec.colr\\""', id="Warn warns"),
        pytest.param("", 201, '299 - "unknown field \\"spec.colr\\""', id="unless told it warns"),
        pytest.param("Ignore", 201, "", id="Ignore says nothing"),
    ],
)
async def test_unknown_fields(api: Api, validation: str, code: int, told: str) -> None:
    answer = await api.send("POST", WIDGETS, widget("one", colr="red"), fieldValidation=validation)
    assert (answer.status_code, answer.headers.get("warning", "")) == (code, told)
    if code == 400:
        assert answer.json()["message"] == (
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.colr"'
        )
    else:
        assert answer.json()["spec"] == {"size": 1, "colour": "grey"}


# Dry runs.


async def test_dry_runs_answer_as_if_and_change_nothing(api: Api) -> None:
    kept = await api.done("POST", WIDGETS, widget("one"))
    assert (
        bare(await api.done("POST", WIDGETS, widget("two"), dryRun="All"))["spec"]["colour"]
        == "grey"
    )
    patched = await api.done("PATCH", ONE, {"spec": {"size": 5}}, dryRun="All")
    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (5, 2)
    replaced = await api.done("PUT", ONE, {**kept, "spec": {"size": 6}}, dryRun="All")
    assert replaced["spec"]["size"] == 6
    assert (await api.done("DELETE", ONE, dryRun="All"))["status"] == "Success"
    assert (await api.done("GET", WIDGETS))["items"] == [kept]


# Update and patch.


async def test_generation_counts_changes_of_what_is_wanted(api: Api) -> None:
    await api.done("POST", WIDGETS, widget("one"))
    seen = []
    for path, patch in (
        (ONE, {"metadata": {"labels": {"a": "b"}}}),
        (ONE, {"spec": {"size": 1}}),
        (ONE, {"spec": {"size": 2}}),
        (f"{ONE}/status", {"status": {"ready": True}}),
        (ONE, {"spec": {"colour": "red"}}),
    ):
        seen.append((await api.done("PATCH", path, patch))["metadata"]["generation"])
    assert seen == [1, 1, 2, 2, 3]


async def test_generation_counts_status_too_where_it_is_no_subresource(api: Api) -> None:
    await api.sandbox.apply([definition(subresources={})])
    await api.done("POST", WIDGETS, {**widget("one"), "status": {"ready": False}})
    patched = await api.done("PATCH", ONE, {"status": {"ready": True}})
    assert (patched["status"], patched["metadata"]["generation"]) == ({"ready": True}, 2)
    assert (await api.refused("PATCH", f"{ONE}/status", {}))[0] == 404


async def test_a_write_that_changes_nothing_is_no_write(api: Api) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    assert await api.done("PATCH", ONE, {"spec": {"size": 1}}) == created
    assert await api.done("PUT", ONE, created) == created
    assert await api.done("PATCH", f"{ONE}/status", {"metadata": {"labels": {"a": "b"}}}) == created


async def test_status_is_written_by_its_own_path_only(api: Api) -> None:
    await api.done("POST", WIDGETS, widget("one"))
    both = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 2}, "status": {"ready": True}}
    by_status = bare(await api.done("PATCH", f"{ONE}/status", both))
    assert by_status == {
        **widget("one"),
        "metadata": {"name": "one", "namespace": NAMESPACE, "generation": 1},
        "spec": {"size": 1, "colour": "grey"},
        "status": {"ready": True},
    }
    by_main = bare(await api.done("PATCH", ONE, {**both, "status": {"ready": False}}))
    assert by_main["status"] == {"ready": True}
    assert (by_main["metadata"]["labels"], by_main["spec"]["size"]) == ({"a": "b"}, 2)
    gone = await api.done("PATCH", f"{ONE}/status", {"status": None})
    assert "status" not in gone


@pytest.mark.parametrize("path", [ONE, f"{ONE}/status"], ids=["the object", "its status"])
async def test_writes_of_what_has_changed_conflict(api: Api, path: str) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    old: Object = {"resourceVersion": "1"}
    modified = "the object has been modified; please apply your changes to the latest version and try again"
    predecessor = "Precondition failed: UID in precondition: another, UID in object meta: "
    for method, body, why in (
        ("PATCH", {"metadata": old, "status": {"a": 1}, "spec": {"size": 3}}, modified),
        (
            "PUT",
            {**with_metadata(created, **old), "spec": {"size": 3}, "status": {"a": 1}},
            modified,
        ),
        ("PUT", {**with_metadata(created, uid="another"), "spec": {"size": 3}}, predecessor),
    ):
        code, reason, message = await api.refused(method, path, body)
        assert (code, reason) == (409, "Conflict")
        assert message.startswith(
            f'Operation cannot be fulfilled on widgets.example.com "one": {why}'
        )
    assert await api.done("GET", ONE) == created


async def test_a_patch_cannot_change_the_uid(api: Api) -> None:
    """As kube-apiserver 1.36: the uid in a patch is no precondition, and in a patch of the status
    it is ignored.
    """
    created = await api.done("POST", WIDGETS, widget("one"))
    code, reason, message = await api.refused(
        "PATCH", ONE, {"metadata": {"uid": "another"}, "spec": {"size": 3}}
    )
    assert (code, reason) == (422, "Invalid")
    assert message.endswith(
        '"one" is invalid: metadata.uid: Invalid value: "another": field is immutable'
    )
    assert await api.done("GET", ONE) == created
    changed = await api.done(
        "PATCH", f"{ONE}/status", {"metadata": {"uid": "another"}, "status": {"ready": True}}
    )
    assert (changed["metadata"]["uid"], changed["status"]) == (
        created["metadata"]["uid"],
        {"ready": True},
    )


async def test_a_patch_that_names_the_version_it_means_goes_through(api: Api) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    version = created["metadata"]["resourceVersion"]
    patched = await api.done(
        "PATCH", ONE, {"metadata": {"resourceVersion": version}, "spec": {"size": 2}}
    )
    assert patched["spec"]["size"] == 2
    operations = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    told = (422, "Invalid", "the server rejected our request due to an error in our request")
    assert await api.refused("PATCH", ONE, operations, headers={"Content-Type": JSON}) == told


async def test_a_put_without_a_version_replaces_built_in_kinds_only(api: Api) -> None:
    await api.done("POST", CONFIGMAPS, configmap("one", a="b"))
    assert (await api.done("PUT", f"{CONFIGMAPS}/one", configmap("one", c="d")))["data"] == {
        "c": "d"
    }
    await api.done("POST", WIDGETS, widget("one"))
    assert await api.refused("PUT", ONE, widget("one", size=2)) == (
        422,
        "Invalid",
        'widgets.example.com "one" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be specified for an update',
    )


@pytest.mark.parametrize(
    ("method", "body", "told"),
    [
        pytest.param(
            "PUT",
            widget("two"),
            "the name of the object (two) does not match the name on the URL (one)",
            id="another name",
        ),
        pytest.param(
            "PATCH",
            {"metadata": {"name": "two"}},
            "the name of the object (two) does not match the name on the URL (one)",
            id="a patch of the name",
        ),
        pytest.param(
            "PATCH",
            {"metadata": {"namespace": "other"}},
            "the namespace of the object (other) does not match that on the request (home)",
            id="a patch of the namespace",
        ),
        pytest.param(
            "PATCH",
            {"metadata": "x"},
            "metadata must be an object",
            id="a patch that makes metadata a text",
        ),
        pytest.param("PATCH", [], "the patch must be an object", id="a merge patch that is a list"),
    ],
)
async def test_updates_that_are_refused(api: Api, method: str, body: Any, told: str) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    assert await api.refused(method, ONE, body) == (400, "BadRequest", told)
    assert await api.done("GET", ONE) == created


async def test_only_the_server_writes_identity(api: Api) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    patch = {
        "metadata": {
            "creationTimestamp": None,
            "generation": 9,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
    }
    assert await api.done("PATCH", ONE, patch) == created


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_what_is_not_there_can_not_be_changed(api: Api, method: str) -> None:
    told = (404, "NotFound", 'widgets.example.com "one" not found')
    assert await api.refused(method, ONE, widget("one") if method == "PUT" else {}) == told


# Delete.


async def test_a_deletion_says_what_it_deleted(api: Api) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    assert await api.done("DELETE", ONE) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "one",
            "group": "example.com",
            "kind": "widgets",
            "uid": created["metadata"]["uid"],
        },
    }
    assert await api.names(WIDGETS) == []


async def test_finalizers_hold_what_is_deleted_until_the_last_is_gone(api: Api) -> None:
    await api.done(
        "POST", WIDGETS, with_metadata(widget("one"), finalizers=["example.com/a", "example.com/b"])
    )
    marked = await api.done("DELETE", ONE)
    assert marked["metadata"]["deletionTimestamp"]
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (
        0,
        2,
    )
    assert await api.done("DELETE", ONE) == marked
    await api.done("PATCH", ONE, {"metadata": {"finalizers": ["example.com/b"]}})
    last = await api.done("PATCH", ONE, {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert await api.names(WIDGETS) == []


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
async def test_a_deletion_can_say_which_object_it_means(api: Api, key: str) -> None:
    created = await api.done("POST", WIDGETS, widget("one"))
    code, reason, message = await api.refused("DELETE", ONE, {"preconditions": {key: "other"}})
    assert (code, reason) == (409, "Conflict")
    assert (
        f"in precondition: other, {'UID' if key == 'uid' else 'ResourceVersion'} in object meta: "
        in message
    )
    await api.done("DELETE", ONE, {"preconditions": {key: created["metadata"][key]}})
    assert await api.names(WIDGETS) == []


async def test_a_collection_is_deleted_as_selected(api: Api) -> None:
    for name, colour in (("one", "red"), ("two", "grey"), ("three", "red")):
        await api.done("POST", WIDGETS, with_metadata(widget(name), labels={"colour": colour}))
    deleted = await api.done("DELETE", WIDGETS, labelSelector="colour=red")
    assert (deleted["kind"], [item["metadata"]["name"] for item in deleted["items"]]) == (
        "WidgetList",
        ["one", "three"],
    )
    assert await api.names(WIDGETS) == ["two"]


# Namespaces.


async def test_a_namespace_is_labelled_and_active(api: Api) -> None:
    created = bare(await api.done("POST", NAMESPACES, namespace("more")))
    assert created == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "more", "labels": {"kubernetes.io/metadata.name": "more"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Api) -> None:
    told = (404, "NotFound", 'namespaces "nowhere" not found')
    assert (
        await api.refused("POST", "/api/v1/namespaces/nowhere/configmaps", configmap("one")) == told
    )


async def test_nothing_is_created_in_a_namespace_that_ends(api: Api) -> None:
    await api.done(
        "POST", CONFIGMAPS, with_metadata(configmap("one"), finalizers=["example.com/hold"])
    )
    ending = await api.done("DELETE", f"{NAMESPACES}/{NAMESPACE}")
    assert (ending["status"]["phase"], bool(ending["metadata"]["deletionTimestamp"])) == (
        "Terminating",
        True,
    )
    code, answer = await api.ask("POST", CONFIGMAPS, configmap("two"))
    why = "unable to create new content in namespace home because it is being terminated"
    assert (code, answer["message"]) == (403, f'configmaps "two" is forbidden: {why}')


async def test_the_namespaces_own_label_can_not_be_taken_away(api: Api) -> None:
    patch = {"metadata": {"labels": {"kubernetes.io/metadata.name": "other", "a": "b"}}}
    patched = await api.done("PATCH", f"{NAMESPACES}/{NAMESPACE}", patch)
    assert patched["metadata"]["labels"] == {"kubernetes.io/metadata.name": "home", "a": "b"}
