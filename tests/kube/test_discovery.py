"""Discovery: what is served, and who hears of it when it changes. In virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from app.facts.kinds import (
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    RESOURCE_CLAIM,
    WORKLOAD,
)
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Unavailable
from app.kube.discovery import Discovery, watch_crds
from app.objects.resource import CRD, NODE, POD, Resource
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient

RESOURCES = (NODE, COMPUTE_DOMAIN, RESOURCE_CLAIM, WORKLOAD)
CORE = {"v1": ["nodes", "pods"]}


class ApiServer:
    """The discovery documents of a cluster: plurals by group and version.

    `error` is that of a path in `broken`: 404 is what a proxy may answer while an API server
    restarts.
    """

    error: type[ClusterError] = Unavailable

    def __init__(self, **groups: dict[str, list[str]]) -> None:
        self.groups = {name.replace("_", "."): versions for name, versions in groups.items()}
        self.broken: set[str] = set()
        self.asked: list[str] = []

    async def read(self, path: str) -> Object:
        self.asked.append(path)
        if path in self.broken:
            raise self.error(f"{path} is down")
        if path == "/apis":
            return {
                "groups": [_group(name, list(versions)) for name, versions in self.groups.items()]
            }
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        plurals = (CORE if path.startswith("/api/") else self.groups.get(group, {})).get(version)
        if plurals is None:
            raise NotFound("404 page not found", code=404)
        return {"resources": [{"name": plural} for plural in plurals]}


def _group(name: str, versions: list[str]) -> Object:
    return {
        "name": name,
        "versions": [{"version": v, "groupVersion": f"{name}/{v}"} for v in versions],
    }


def discovery_of(server: ApiServer) -> Discovery:
    return Discovery(server.read, RESOURCES, random=lambda: 0.0)


def answers(discovery: Discovery) -> dict[str, str | None]:
    return {str(resource): discovery.served_version(resource) for resource in RESOURCES}


NOTHING_OPTIONAL: dict[str, str | None] = {
    "nodes": "v1",
    "computedomains.resource.nvidia.com": None,
    "resourceclaims.resource.k8s.io": None,
    "workloads.scheduling.k8s.io": None,
}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        pytest.param(ApiServer(), {}, id="a cluster with nothing optional"),
        pytest.param(
            ApiServer(resource_k8s_io={"v1beta1": ["resourceclaims"], "v1": ["resourceclaims"]}),
            {"resourceclaims.resource.k8s.io": "v1"},
            id="the best of several versions, whatever their order",
        ),
        pytest.param(
            ApiServer(
                resource_k8s_io={"v1alpha3": ["resourceclaims"], "v1beta1": ["resourceclaims"]}
            ),
            {"resourceclaims.resource.k8s.io": "v1beta1"},
            id="an older cluster",
        ),
        pytest.param(
            ApiServer(scheduling_k8s_io={"v1": ["priorityclasses"], "v1alpha1": ["workloads"]}),
            {"workloads.scheduling.k8s.io": "v1alpha1"},
            id="the group without the resource in another version",
        ),
        pytest.param(
            ApiServer(
                scheduling_k8s_io={
                    "v1beta1": ["compositepodgroups"],
                    "v1": ["priorityclasses", "workloads"],
                }
            ),
            {"workloads.scheduling.k8s.io": "v1"},
            id="Workloads of Kubernetes 1.38",
        ),
        pytest.param(
            ApiServer(resource_nvidia_com={"v2": ["computedomains"]}),
            {"computedomains.resource.nvidia.com": "v2"},
            id="only a version that we don't know",
        ),
        pytest.param(
            ApiServer(resource_nvidia_com={"v2": ["computedomains"], "v1beta1": ["others"]}),
            {"computedomains.resource.nvidia.com": "v2"},
            id="only a version that we don't know, beside other resources in a known one",
        ),
        pytest.param(
            ApiServer(
                resource_nvidia_com={"v2": ["computedomains"], "v1beta1": ["computedomains"]}
            ),
            {"computedomains.resource.nvidia.com": "v1beta1"},
            id="a version that we don't know beside one that we do",
        ),
        pytest.param(
            ApiServer(resource_nvidia_com={"v2": ["computedomains"], "v3": ["computedomains"]}),
            {"computedomains.resource.nvidia.com": "v2"},
            id="of several unknown versions the one that the API server prefers",
        ),
        pytest.param(
            ApiServer(resource_k8s_io={"v1alpha3": ["resourceclaims"]}),
            {},
            id="only a version that is older than all that we know",
        ),
        pytest.param(
            ApiServer(resource_nvidia_com={"edge": ["computedomains"]}),
            {},
            id="only a version whose age is not known",
        ),
    ],
)
def test_served_versions(server: ApiServer, expected: dict[str, str]) -> None:
    async def main() -> None:
        discovery = discovery_of(server)
        assert (discovery.known, answers(discovery)) == (False, NOTHING_OPTIONAL)
        await discovery.refresh()
        assert (discovery.known, answers(discovery)) == (True, NOTHING_OPTIONAL | expected)

    virtual.run(main())


@pytest.mark.parametrize("refresh", ["refresh", "assume"])
def test_an_unknown_version_is_told_from_the_known_ones(refresh: str) -> None:
    async def main() -> None:
        server = ApiServer(
            resource_nvidia_com={"v2": ["computedomains"]},
            resource_k8s_io={"v1": ["resourceclaims"]},
        )
        discovery = discovery_of(server)
        await getattr(discovery, refresh)()
        assert discovery.unknown == {COMPUTE_DOMAIN: "v2"}
        assert await discovery.served_now([COMPUTE_DOMAIN]) == {COMPUTE_DOMAIN}

    virtual.run(main())


def test_an_unknown_version_gives_way_to_a_known_one_and_back() -> None:
    async def main() -> None:
        heard: list[str | None] = []
        server = ApiServer(resource_nvidia_com={"v2": ["computedomains"]})
        discovery = discovery_of(server)
        discovery.subscribe(lambda _, version: heard.append(version))
        await discovery.refresh()
        server.groups["resource.nvidia.com"]["v1beta1"] = ["computedomains"]
        await discovery.refresh()
        del server.groups["resource.nvidia.com"]["v1beta1"]
        await discovery.refresh()
        assert heard == ["v2", "v1beta1", "v2"]

    virtual.run(main())


def test_an_unknown_version_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        discovery = discovery_of(ApiServer(resource_nvidia_com={"v2": ["computedomains"]}))
        await discovery.refresh()
        await discovery.refresh()

    virtual.run(main())
    assert [record.message for record in caplog.records] == [
        "computedomains.resource.nvidia.com is served as v2, which this version of grove-admission"
        " does not know, so its objects are judged as v1beta1"
    ]


def test_commands_take_no_workloads_for_served_in_the_version_of_priority_classes() -> None:
    async def main() -> None:
        groups = {"v1": ["priorityclasses"], "v1alpha2": ["workloads"]}
        discovery = discovery_of(ApiServer(scheduling_k8s_io=groups))
        await discovery.assume()
        assert answers(discovery)["workloads.scheduling.k8s.io"] == "v1alpha2"

    virtual.run(main())


def test_commands_find_an_unknown_version_next_to_known_ones_of_other_kinds() -> None:
    """Such as v1beta2 of Grove, beside a CRD of v1alpha1 that an upgrade has left."""

    async def main() -> None:
        groups = {"v1alpha1": ["podcliques"], "v9": ["podcliquesets", "clustertopologies"]}
        server = ApiServer(grove_io=groups, resource_nvidia_com={"v1beta1": ["computedomains"]})
        resources = (POD_CLIQUE, POD_CLIQUE_SET, POD_CLIQUE_SCALING_GROUP, COMPUTE_DOMAIN)
        discovery = Discovery(server.read, resources)
        await discovery.assume()
        served = {str(resource): version for resource, version in discovery.unknown.items()}
        assert served == {"podcliquesets.grove.io": "v9"}
        assert discovery.served_version(POD_CLIQUE) == "v1alpha1"
        assert discovery.served_version(POD_CLIQUE_SCALING_GROUP) == "v1alpha1"  # a list says 404
        assert "/apis/resource.nvidia.com/v1beta1" not in server.asked
        server.broken.add("/apis/grove.io/v9")
        await discovery.assume()
        assert discovery.served_version(POD_CLIQUE_SET) == "v1alpha1"

    virtual.run(main())


def test_only_groups_that_we_know_are_read() -> None:
    async def main() -> None:
        server = ApiServer(
            apps={"v1": ["deployments"]}, resource_nvidia_com={"v1beta1": ["computedomains"]}
        )
        await discovery_of(server).refresh()
        assert sorted(server.asked) == ["/api/v1", "/apis", "/apis/resource.nvidia.com/v1beta1"]

    virtual.run(main())


@pytest.mark.parametrize(
    ("groups", "down", "resource", "version"),
    [
        pytest.param(
            {"resource_nvidia_com": {"v1beta1": ["computedomains"]}},
            "/apis/resource.nvidia.com/v1beta1",
            COMPUTE_DOMAIN,
            "v1beta1",
            id="its only version",
        ),
        pytest.param(
            {"resource_k8s_io": {"v1": ["resourceclaims"], "v1beta1": ["resourceclaims"]}},
            "/apis/resource.k8s.io/v1",
            RESOURCE_CLAIM,
            "v1",
            id="one of two versions, which gives way to no other",
        ),
        pytest.param(
            {"resource_nvidia_com": {"v2": ["computedomains"]}},
            "/apis/resource.nvidia.com/v2",
            COMPUTE_DOMAIN,
            "v2",
            id="a version that we don't know",
        ),
    ],
)
@pytest.mark.parametrize("error", [Unavailable, NotFound])
def test_a_version_that_is_down_counts_as_before(
    groups: dict[str, dict[str, list[str]]],
    down: str,
    resource: Resource,
    version: str,
    error: type[ClusterError],
) -> None:
    async def main() -> None:
        server = ApiServer(**groups)
        server.error = error
        refreshed = discovery_of(server)
        await refreshed.refresh()
        server.broken.add(down)
        with pytest.raises(error, match="is down"):
            await refreshed.refresh()
        assert refreshed.served_version(resource) == version

    virtual.run(main())


def test_a_group_that_was_down_when_a_crd_came_is_read_again_soon() -> None:
    """Its former list doesn't name the new resource."""

    async def main() -> None:
        server = ApiServer(scheduling_k8s_io={"v1alpha1": ["others"]})
        discovery = discovery_of(server)
        async with running(discovery), asyncio.timeout(20):
            server.broken.add("/apis/scheduling.k8s.io/v1alpha1")
            server.groups["scheduling.k8s.io"] = {"v1alpha1": ["others", "workloads"]}
            discovery.trigger()
            await asyncio.sleep(10)
            server.broken.clear()
            await discovery.changed()
            assert discovery.served_version(WORKLOAD) == "v1alpha1"

    virtual.run(main())


def test_a_group_that_stays_down_delays_no_other() -> None:
    async def main() -> None:
        server = ApiServer(scheduling_k8s_io={"v1alpha1": ["workloads"]})
        discovery = discovery_of(server)
        async with running(discovery):
            server.broken.add("/apis/scheduling.k8s.io/v1alpha1")
            discovery.trigger()
            await asyncio.sleep(300)
            server.groups["resource.nvidia.com"] = {"v1beta1": ["computedomains"]}
            discovery.trigger()
            async with asyncio.timeout(2):
                await discovery.changed()
            assert discovery.served_version(COMPUTE_DOMAIN) == "v1beta1"

    virtual.run(main())


@pytest.mark.parametrize(
    ("plurals", "serves"),
    [
        pytest.param(["computedomains"], True, id="its CRD came after the last refresh"),
        pytest.param(["others"], False, id="it is not served"),
    ],
)
def test_whether_a_resource_is_served_at_this_moment(plurals: list[str], serves: bool) -> None:
    async def main() -> None:
        server = ApiServer()
        discovery = discovery_of(server)
        async with running(discovery):
            server.groups["resource.nvidia.com"] = {"v1beta1": plurals}
            assert (await discovery.served_now([COMPUTE_DOMAIN]) == {COMPUTE_DOMAIN}) is serves
            await asyncio.sleep(5)
            assert (discovery.served_version(COMPUTE_DOMAIN) is not None) is serves

    virtual.run(main())


@pytest.mark.parametrize(("version", "plural"), [("v1beta1", "others"), ("v2", "computedomains")])
def test_a_404_for_a_version_that_was_served_is_no_answer_at_this_moment(
    version: str, plural: str
) -> None:
    async def main() -> None:
        server = ApiServer(resource_nvidia_com={version: [plural]})
        server.error = NotFound
        discovery = discovery_of(server)
        async with running(discovery):
            server.broken.add(f"/apis/resource.nvidia.com/{version}")
            with pytest.raises(NotFound):
                await discovery.served_now([COMPUTE_DOMAIN])

    virtual.run(main())


def test_what_is_gone_is_soon_looked_for_again() -> None:
    """An API server that starts may not name all groups of CRDs yet."""

    async def main() -> None:
        server = ApiServer(resource_nvidia_com={"v1beta1": ["computedomains"]})
        discovery = discovery_of(server)
        async with running(discovery):
            known = dict(server.groups)
            server.groups.clear()
            await discovery.changed()
            assert discovery.served_version(COMPUTE_DOMAIN) is None
            server.groups |= known
            async with asyncio.timeout(10):
                await discovery.changed()
            assert discovery.served_version(COMPUTE_DOMAIN) == "v1beta1"
            before = len(server.asked)
            await asyncio.sleep(200)
            assert server.asked[before:].count("/apis") <= 2

    virtual.run(main())


def test_subscribers_hear_what_changed_and_only_that() -> None:
    async def main() -> None:
        heard: list[tuple[Resource, str | None]] = []
        server = ApiServer(resource_k8s_io={"v1beta1": ["resourceclaims"]})
        discovery = discovery_of(server)
        discovery.subscribe(lambda resource, version: heard.append((resource, version)))
        await discovery.refresh()
        await discovery.refresh()
        server.groups["resource.k8s.io"] = {"v1": ["resourceclaims"]}
        await discovery.refresh()
        server.groups.clear()
        await discovery.refresh()
        assert heard == [
            (RESOURCE_CLAIM, "v1beta1"),
            (RESOURCE_CLAIM, "v1"),
            (RESOURCE_CLAIM, None),
        ]

    virtual.run(main())


@asynccontextmanager
async def running(discovery: Discovery) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(discovery.run())
    try:
        await asyncio.sleep(0.1)
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_it_refreshes_by_itself_and_waits_are_woken() -> None:
    async def main() -> None:
        server = ApiServer()
        discovery = discovery_of(server)
        async with running(discovery), asyncio.timeout(301):
            server.groups["resource.nvidia.com"] = {"v1beta1": ["computedomains"]}
            await discovery.changed()
            assert discovery.served_version(COMPUTE_DOMAIN) == "v1beta1"

    virtual.run(main())


@pytest.mark.parametrize("served_after", [0.5, 4.0], ids=["at once", "a little later"])
def test_a_new_crd_is_found_within_moments(served_after: float) -> None:
    async def main() -> None:
        server = ApiServer()
        client = MemoryClient()
        discovery = discovery_of(server)
        async with running(discovery), asyncio.timeout(10):
            watching = asyncio.create_task(watch_crds(client, discovery))
            await asyncio.sleep(3)
            name = str(COMPUTE_DOMAIN)
            await client.create(CRD, {"metadata": {"name": name}})
            await asyncio.sleep(served_after)
            server.groups["resource.nvidia.com"] = {"v1beta1": ["computedomains"]}
            await discovery.changed()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    virtual.run(main())


def test_many_triggers_at_once_lead_to_two_refreshes() -> None:
    async def main() -> None:
        server = ApiServer()
        discovery = discovery_of(server)
        async with running(discovery):
            for _ in range(5):
                discovery.trigger()
                await asyncio.sleep(discovery.settle_seconds / 10)
            await asyncio.sleep(100)
            assert server.asked.count("/apis") == 3

    virtual.run(main())


def test_a_crd_that_is_not_ours_is_passed_over() -> None:
    async def main() -> None:
        server = ApiServer()
        client = MemoryClient()
        discovery = discovery_of(server)
        async with running(discovery):
            watching = asyncio.create_task(watch_crds(client, discovery))
            await client.create(CRD, {"metadata": {"name": "widgets.example.com"}})
            await asyncio.sleep(100)
            assert server.asked.count("/apis") == 1
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    virtual.run(main())


def test_an_api_server_that_is_down_is_asked_again() -> None:
    async def main() -> None:
        server = ApiServer()
        server.broken.add("/apis")
        discovery = discovery_of(server)
        async with running(discovery):
            await asyncio.sleep(10)
            assert (discovery.known, discovery.problem) == (False, "/apis is down")
            server.broken.clear()
            await asyncio.sleep(20)
            assert (discovery.known, discovery.problem) == (True, "")
            assert discovery.served_version(POD) is None

    virtual.run(main())


@pytest.mark.parametrize(
    ("change", "redefined"),
    [
        pytest.param({"spec": {"group": "other"}}, True, id="another spec"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, False, id="another label"),
    ],
)
def test_a_crd_that_has_changed_is_told_of(change: Object, redefined: bool) -> None:
    async def main() -> None:
        server = ApiServer()
        client = MemoryClient()
        discovery = discovery_of(server)
        async with running(discovery), asyncio.timeout(100):
            await client.create(
                CRD, {"metadata": {"name": str(COMPUTE_DOMAIN)}, "spec": {"group": "one"}}
            )
            watching = asyncio.create_task(watch_crds(client, discovery))
            waiting = asyncio.create_task(discovery.redefined(COMPUTE_DOMAIN))
            await asyncio.sleep(3)
            await client.patch(ObjectRef(CRD, str(COMPUTE_DOMAIN)), change)
            await asyncio.sleep(10)
            assert waiting.done() is redefined
            for task in (watching, waiting):
                task.cancel()
            await asyncio.gather(watching, waiting, return_exceptions=True)

    virtual.run(main())


def test_a_crd_that_changes_again_is_told_of_again() -> None:
    """The second schema is not in force yet when the list after the first change is read."""

    async def main() -> None:
        discovery = discovery_of(ApiServer())
        told: list[float] = []

        async def listen() -> None:
            while True:
                await discovery.redefined(COMPUTE_DOMAIN)
                told.append(virtual.now())

        listening = asyncio.create_task(listen())
        await asyncio.sleep(10)
        discovery.note_redefined(str(COMPUTE_DOMAIN))
        await asyncio.sleep(1.5)
        discovery.note_redefined(str(COMPUTE_DOMAIN))
        await asyncio.sleep(10)
        assert told == [12.0, 14.0]
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    virtual.run(main())


def test_a_new_version_that_cannot_be_read_does_not_take_the_former_one_away() -> None:
    async def main() -> None:
        server = ApiServer(resource_k8s_io={"v1beta1": ["resourceclaims"]})
        discovery = discovery_of(server)
        await discovery.refresh()
        server.groups = {
            "resource.k8s.io": {"v1": ["resourceclaims"]},
            "scheduling.k8s.io": {"v1alpha1": ["workloads"]},
        }
        server.broken.add("/apis/resource.k8s.io/v1")
        with pytest.raises(Unavailable, match="is down"):
            await discovery.refresh()
        assert (discovery.served_version(RESOURCE_CLAIM), discovery.served_version(WORKLOAD)) == (
            "v1beta1",
            "v1alpha1",
        )
        server.broken.clear()
        await discovery.refresh()
        assert discovery.served_version(RESOURCE_CLAIM) == "v1"

    virtual.run(main())


def test_a_new_group_that_cannot_be_read_is_asked_for_again_soon() -> None:
    async def main() -> None:
        server = ApiServer()
        discovery = discovery_of(server)
        async with running(discovery), asyncio.timeout(10):
            server.groups["resource.nvidia.com"] = {"v1beta1": ["computedomains"]}
            server.broken.add("/apis/resource.nvidia.com/v1beta1")
            discovery.trigger()
            await asyncio.sleep(3)
            assert (discovery.served_version(COMPUTE_DOMAIN), discovery.problem) == (
                None,
                "/apis/resource.nvidia.com/v1beta1 is down",
            )
            server.broken.clear()
            await discovery.changed()
            assert (discovery.served_version(COMPUTE_DOMAIN), discovery.problem) == ("v1beta1", "")

    virtual.run(main())
