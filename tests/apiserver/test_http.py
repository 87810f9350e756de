"""Paths, users, bodies and codes: what is refused before a request reaches the storage."""

import pytest

from tests.apiserver.api import CONFIGMAPS, JSON, NAMESPACE, WIDGETS, Api, configmap, widget

NOT_SERVED = (404, "NotFound", "the server could not find the requested resource")
NOT_ALLOWED = (
    405,
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource",
)
UNKNOWN_FORMAT = "in an unknown format - accepted media types include: application/json"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", "/nonsense", NOT_SERVED, id="a path of no API"),
        pytest.param("GET", "/api/v2", NOT_SERVED, id="a core version that isn't there"),
        pytest.param("GET", "/apis/nonsense.io", NOT_SERVED, id="a group that isn't there"),
        pytest.param("GET", "/apis/example.com/v2", NOT_SERVED, id="a version that isn't there"),
        pytest.param(
            "GET",
            "/apis/example.com/v2/widgets",
            NOT_SERVED,
            id="a resource in a version that isn't there",
        ),
        pytest.param("GET", "/api/v1/gadgets", NOT_SERVED, id="a resource that isn't there"),
        pytest.param(
            "GET",
            "/api/v1/configmaps/one",
            NOT_SERVED,
            id="a namespaced object without its namespace",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/home/nodes",
            NOT_SERVED,
            id="a cluster-scoped resource in a namespace",
        ),
        pytest.param(
            "GET", f"{WIDGETS}/one/scale", NOT_SERVED, id="a subresource that isn't there"
        ),
        pytest.param("GET", f"{WIDGETS}/one/status/more", NOT_SERVED, id="too long a path"),
        pytest.param(
            "GET", f"{CONFIGMAPS}/one/status", NOT_SERVED, id="the status of what has none"
        ),
        pytest.param(
            "GET", "/openapi/v3/apis/nonsense.io/v1", NOT_SERVED, id="the OpenAPI of no group"
        ),
        pytest.param("POST", f"{WIDGETS}/one", NOT_ALLOWED, id="POST to an object"),
        pytest.param(
            "POST", "/api/v1/configmaps", NOT_ALLOWED, id="POST to a resource across namespaces"
        ),
        pytest.param("PUT", WIDGETS, NOT_ALLOWED, id="PUT to a collection"),
        pytest.param("PATCH", WIDGETS, NOT_ALLOWED, id="PATCH of a collection"),
        pytest.param("DELETE", f"{WIDGETS}/one/status", NOT_ALLOWED, id="DELETE of a status"),
        pytest.param(
            "GET",
            f"/api/v1/namespaces/{NAMESPACE}/pods/one/binding",
            NOT_ALLOWED,
            id="GET of what can only be created",
        ),
        pytest.param(
            "PATCH",
            f"/api/v1/namespaces/{NAMESPACE}/pods/one/binding",
            NOT_ALLOWED,
            id="PATCH of a binding",
        ),
        pytest.param(
            "GET",
            f"{WIDGETS}/one",
            (404, "NotFound", 'widgets.example.com "one" not found'),
            id="no such object",
        ),
        pytest.param(
            "GET",
            f"{CONFIGMAPS}/one",
            (404, "NotFound", 'configmaps "one" not found'),
            id="no such core object",
        ),
    ],
)
async def test_what_is_not_there_and_what_does_not_go(
    api: Api, method: str, path: str, expected: tuple[int, str, str]
) -> None:
    assert await api.refused(method, path, {}) == expected


@pytest.mark.parametrize(
    ("user", "header", "code"),
    [
        pytest.param("admin", None, 200, id="a known token"),
        pytest.param("user", None, 200, id="another user's token"),
        pytest.param("", None, 401, id="no token"),
        pytest.param("", "Bearer nonsense", 401, id="an unknown token"),
        pytest.param("", "Basic YWRtaW46YWRtaW4=", 401, id="a password"),
    ],
)
async def test_who_may_ask(api: Api, user: str, header: str | None, code: int) -> None:
    answer = await api.send(
        "GET", "/api/v1/namespaces", user=user, headers={"Authorization": header} if header else {}
    )
    assert answer.status_code == code


async def test_a_stranger_is_told_nothing_but_that(api: Api) -> None:
    assert await api.refused("DELETE", f"{WIDGETS}/one", user="") == (
        401,
        "Unauthorized",
        "Unauthorized",
    )


async def test_the_version_says_what_this_is(api: Api) -> None:
    version = await api.done("GET", "/version", user="")
    assert (version["major"], version["minor"], version["gitVersion"]) == (
        "1",
        "36",
        "v1.36.0+grove-admission-sandbox",
    )


@pytest.mark.parametrize(
    ("body", "headers", "code", "told"),
    [
        pytest.param(
            b"{", {}, 400, "the body of the request can't be read", id="half a JSON document"
        ),
        pytest.param(b"a: b", {"Content-Type": "application/yaml"}, 415, UNKNOWN_FORMAT, id="YAML"),
        pytest.param(b"[]", {}, 400, "must be an object", id="a list"),
        pytest.param(b"", {}, 400, "must be an object", id="nothing"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, UNKNOWN_FORMAT, id="plain text"),
        pytest.param(b"{}", {"Content-Type": JSON}, 415, UNKNOWN_FORMAT, id="a patch's type"),
        pytest.param(
            b"k8s\0",
            {"Content-Type": "application/vnd.kubernetes.protobuf"},
            415,
            f"{UNKNOWN_FORMAT}; instead of `kubectl create <kind>` use `kubectl create -f`",
            id="protobuf",
        ),
    ],
)
async def test_bodies_that_are_refused(
    api: Api, body: bytes, headers: dict[str, str], code: int, told: str
) -> None:
    status, _, message = await api.refused("POST", CONFIGMAPS, body, headers=headers)
    assert status == code
    assert told in message


async def test_a_misspelt_dry_run_is_not_a_write(api: Api) -> None:
    refused = await api.refused("POST", CONFIGMAPS, configmap("one"), dryRun="true")
    assert refused == (
        400,
        "BadRequest",
        "dryRun: Unsupported value: ['true']: supported values: \"All\"",
    )
    assert await api.names(CONFIGMAPS) == []


async def test_a_dry_run_in_the_body_of_a_delete_counts(api: Api) -> None:
    await api.done("POST", CONFIGMAPS, configmap("one"))
    await api.done(
        "DELETE",
        f"{CONFIGMAPS}/one",
        {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
    )
    refused = await api.refused("DELETE", f"{CONFIGMAPS}/one", {"dryRun": ["Some"]})
    assert refused[2].startswith("dryRun: Unsupported value: ")
    assert await api.names(CONFIGMAPS) == ["one"]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        pytest.param("plain", '299 - "plain"', id="plain words"),
        pytest.param(
            'a "b" \\c', '299 - "a \\"b\\" \\\\c"', id="quotes and backslashes are escaped"
        ),
        pytest.param("two\nlines", '299 - "two lines"', id="a line ends in no header"),
        pytest.param("é→x", '299 - "é?x"', id="what no header can carry"),
    ],
)
async def test_warnings_are_headers(api: Api, text: str, header: str) -> None:
    answer = await api.send("POST", WIDGETS, {**widget("one"), "spec": {"size": 1, text: 1}})
    [warning] = answer.headers.get_list("warning")
    assert warning == header.replace('"', '"unknown field \\"spec.', 1)[:-1] + '\\""'
