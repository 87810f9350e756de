"""Discovery: what kubectl learns of the resources before it asks for any."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from scripts.apiserver.http.discovery import VERSION
from tests.apiserver.api import Api, Object, definition, opened

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
GROUP = {
    "name": "example.com",
    "versions": [{"groupVersion": "example.com/v1", "version": "v1"}],
    "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """One definition has every name that discovery tells of."""
    async with opened(tmp_path) as api:
        named = definition()
        named["spec"]["names"] |= {"shortNames": ["wd"], "singular": "widget"}
        await api.sandbox.apply([named])
        yield api


def by_name(resources: list[Object], *names: str) -> list[Object]:
    return [resource for resource in resources if resource["name"] in names]


# Group by group.


async def test_the_roots(api: Api) -> None:
    assert await api.done("GET", "/api") == {"kind": "APIVersions", "versions": ["v1"]}
    assert await api.done("GET", "/version", user="") == VERSION


async def test_the_list_of_groups(api: Api) -> None:
    listed = await api.done("GET", "/apis")
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in listed["groups"]}
    assert groups["example.com"] == GROUP
    assert "" not in groups


async def test_one_group(api: Api) -> None:
    assert await api.done("GET", "/apis/example.com") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        **GROUP,
    }


async def test_versions_of_a_group_come_as_they_were_defined(api: Api) -> None:
    stored = definition(plural="gadgets", kind="Gadget")
    version = stored["spec"]["versions"][0]
    names = ("v1alpha1", "v1", "v2beta1")
    stored["spec"]["versions"] = [
        {**version, "name": name, "storage": name == "v1"} for name in names
    ]
    await api.sandbox.apply([stored])
    group = await api.done("GET", "/apis/example.com")
    listed = [entry["version"] for entry in group["versions"]]
    assert listed == ["v1", "v1alpha1", "v2beta1"]
    assert group["preferredVersion"]["version"] == "v1"


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        pytest.param(
            "/apis/example.com/v1",
            "widgets",
            {
                "singularName": "widget",
                "namespaced": True,
                "kind": "Widget",
                "verbs": ALL,
                "shortNames": ["wd"],
            },
            id="a custom resource with all names",
        ),
        pytest.param(
            "/apis/example.com/v1",
            "widgets/status",
            {
                "singularName": "",
                "namespaced": True,
                "kind": "Widget",
                "verbs": ["get", "patch", "update"],
            },
            id="its status",
        ),
        pytest.param(
            "/api/v1",
            "pods/binding",
            {"singularName": "", "namespaced": True, "kind": "Binding", "verbs": ["create"]},
            id="the binding of pods",
        ),
        pytest.param(
            "/api/v1",
            "secrets",
            {"singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ALL},
            id="no short names",
        ),
        pytest.param(
            "/api/v1",
            "namespaces",
            {
                "singularName": "namespace",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": ALL,
                "shortNames": ["ns"],
            },
            id="a cluster-scoped resource",
        ),
        pytest.param(
            "/apis/authorization.k8s.io/v1",
            "selfsubjectaccessreviews",
            {
                "singularName": "selfsubjectaccessreview",
                "namespaced": False,
                "kind": "SelfSubjectAccessReview",
                "verbs": ["create"],
            },
            id="reviews are only created",
        ),
    ],
)
async def test_the_resources_of_a_version(api: Api, path: str, name: str, expected: Object) -> None:
    listed = await api.done("GET", path)
    assert (listed["kind"], listed["groupVersion"]) == (
        "APIResourceList",
        path.removeprefix("/api").strip("s/"),
    )
    assert by_name(listed["resources"], name) == [{"name": name, **expected}]


@pytest.mark.parametrize(
    "path", ["/", "/apis/nope", "/apis/apps/v9", "/api/v9", "/nope", "/openapi/v3/apis/nope/v1"]
)
async def test_what_is_not_served(api: Api, path: str) -> None:
    assert await api.refused("GET", path) == (
        404,
        "NotFound",
        "the server could not find the requested resource",
    )


async def test_aggregated_discovery_is_answered_in_the_plain_form(api: Api) -> None:
    """kubectl then reads group by group."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    answer = await api.send("GET", "/apis", headers={"Accept": accept})
    assert (answer.json()["kind"], answer.headers["content-type"]) == (
        "APIGroupList",
        "application/json",
    )


# OpenAPI.


async def test_the_index_of_openapi(api: Api) -> None:
    paths = (await api.done("GET", "/openapi/v3"))["paths"]
    assert paths["apis/example.com/v1"] == {"serverRelativeURL": "/openapi/v3/apis/example.com/v1"}
    assert paths["api/v1"] == {"serverRelativeURL": "/openapi/v3/api/v1"}


def parameters(document: Object, path: str) -> list[Any]:
    return [parameter["name"] for parameter in document["paths"][path]["patch"]["parameters"]]


async def test_kubectl_learns_that_fields_are_validated_here(api: Api) -> None:
    custom = await api.done("GET", "/openapi/v3/apis/example.com/v1")
    path = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
    assert list(custom["paths"]) == [path]
    assert parameters(custom, path) == ["dryRun", "fieldManager", "fieldValidation"]
    operation = custom["paths"][path]["patch"]
    assert (operation["x-kubernetes-action"], operation["x-kubernetes-group-version-kind"]) == (
        "patch",
        {"group": "example.com", "version": "v1", "kind": "Widget"},
    )
    core = await api.done("GET", "/openapi/v3/api/v1")
    assert parameters(core, "/api/v1/nodes/{name}") == ["dryRun", "fieldManager", "fieldValidation"]
