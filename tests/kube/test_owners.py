"""Top owners: who is found at the end of the way, and how often the API server is asked."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from app.kube import owners
from app.kube.api import ClusterError, NotFound, Object, Rejected, Unavailable
from app.kube.owners import FRESH_SECONDS, Kinds, Owners
from app.objects.owners import OwnerRef, controller_of
from app.objects.resource import Resource
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient

JOB = Resource("batch", "jobs", "Job", True, ("v1",))
CRON_JOB = Resource("batch", "cronjobs", "CronJob", True, ("v1",))
KINDS = {"Job": JOB, "CronJob": CRON_JOB}


def reference(kind: str, name: str, uid: str = "", controller: bool = True) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid or f"uid-{name}"}
    return {**owner, "controller": True} if controller else owner


def owned(kind: str, name: str, *references: Object, **metadata: object) -> Object:
    all_metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "ownerReferences": list(references),
        **metadata,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": kind,
        "metadata": all_metadata,
        "spec": {"big": "spec"},
    }


def cluster(*objects: Object) -> MemoryClient:
    client = MemoryClient()
    client.served = {JOB: "v1", CRON_JOB: "v1"}
    client.load(objects)
    return client


def looking(client: MemoryClient) -> Owners:
    async def find(api_version: str, kind: str) -> Resource | None:
        return KINDS.get(kind)

    return Owners(client, find, clock=virtual.now)


def controller(kind: str, name: str, uid: str = "") -> OwnerRef:
    return OwnerRef(kind, name, uid or f"uid-{name}", True, "batch/v1")


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param(
            [reference("Job", "j", controller=False)], None, id="an owner that doesn't control"
        ),
        pytest.param(
            [reference("Job", "i", controller=False), reference("Job", "j")],
            controller("Job", "j"),
            id="the controller",
        ),
    ],
)
def test_who_controls_an_object(references: Sequence[Object], expected: OwnerRef | None) -> None:
    assert controller_of(owned("Job", "x", *references)) == expected


CHAIN = (owned("Job", "j", reference("CronJob", "c")), owned("CronJob", "c", labels={"a": "b"}))
LOOP = (owned("Job", "j", reference("CronJob", "c")), owned("CronJob", "c", reference("Job", "j")))


@pytest.mark.parametrize(
    ("objects", "start", "top"),
    [
        pytest.param(
            CHAIN, controller("Job", "j"), ("CronJob", "c", "uid-c"), id="the last on the way up"
        ),
        pytest.param(
            (CHAIN[0],),
            controller("Job", "j"),
            ("Job", "j", "uid-j"),
            id="an owner that is gone ends it",
        ),
        pytest.param(
            (),
            controller("Job", "j"),
            ("Job", "j", "uid-j"),
            id="the reference stands for one that is gone",
        ),
        pytest.param(
            CHAIN,
            controller("Job", "j", "other"),
            ("Job", "j", "other"),
            id="another of that name is somebody else",
        ),
        pytest.param(
            (), controller("Ray", "r"), ("Ray", "r", "uid-r"), id="a kind that isn't served"
        ),
        pytest.param(
            (owned("Job", "j", reference("Ray", "r")),),
            controller("Job", "j"),
            ("Job", "j", "uid-j"),
            id="a kind that isn't served, above",
        ),
        pytest.param(
            LOOP, controller("Job", "j"), ("CronJob", "c", "uid-c"), id="a ring ends somewhere"
        ),
    ],
)
def test_the_top_owner(
    objects: tuple[Object, ...], start: OwnerRef, top: tuple[str, str, str]
) -> None:
    async def story() -> None:
        owner = await looking(cluster(*objects)).top_owner("ns", start)
        assert (owner["kind"], owner["metadata"]["name"], owner["metadata"]["uid"]) == top
        assert "spec" not in owner

    virtual.run(story())


@pytest.mark.parametrize(
    "error", [Rejected("no", code=403), NotFound("gone", code=404)], ids=["not ours", "gone"]
)
def test_what_may_not_be_read_ends_the_way(error: ClusterError) -> None:
    async def story() -> None:
        client = cluster(*CHAIN)
        client.fail_next("get", CRON_JOB, error)
        owner = await looking(client).top_owner("ns", controller("Job", "j"))
        assert owner["metadata"]["name"] == "j"

    virtual.run(story())


@pytest.mark.parametrize(
    "error",
    [Unavailable("later", code=503), Rejected("Unauthorized", code=401)],
    ids=["an API server in trouble", "an expired token"],
)
def test_what_may_be_answered_later_is_no_answer_and_is_not_remembered(
    error: ClusterError,
) -> None:
    async def story() -> None:
        client = cluster(*CHAIN)
        client.fail_next("get", CRON_JOB, error)
        lookup = looking(client)
        with pytest.raises(type(error)):
            await lookup.top_owner("ns", controller("Job", "j"))
        assert (await lookup.top_owner("ns", controller("Job", "j")))["metadata"]["name"] == "c"

    virtual.run(story())


def test_an_owner_is_read_once_until_it_is_no_longer_fresh() -> None:
    async def story() -> None:
        client = cluster(*CHAIN)
        lookup = looking(client)
        for wait in (0.0, FRESH_SECONDS - 1, 2.0):
            await asyncio.sleep(wait)
            await lookup.top_owner("ns", controller("Job", "j"))
        assert [call.name for call in client.calls] == ["j", "c", "j", "c"]

    virtual.run(story())


@pytest.mark.parametrize("forged", [("other", "j"), ("ns", "k")], ids=["namespace", "name"])
def test_a_forged_reference_with_the_uid_of_an_owner_hides_it_from_nobody(
    forged: tuple[str, str],
) -> None:
    async def story() -> None:
        lookup = looking(cluster(*CHAIN))
        namespace, name = forged
        for _ in range(2):
            assert await lookup.chain(namespace, controller("Job", name, "uid-j")) == []
            assert len(await lookup.chain("ns", controller("Job", "j"))) == 2

    virtual.run(story())


LONG = "x" * 1000


@pytest.mark.parametrize(
    "forged",
    [
        OwnerRef("Job", ".", "uid-j", True, "batch/v1"),
        OwnerRef("Job", "j", LONG, True, "batch/v1"),
        OwnerRef(LONG, "j", "uid-j", True, "batch/v1"),
        OwnerRef("Job", "j", "uid-j", True, LONG),
        OwnerRef("ResourceClaim", "j", "uid-j", True, "resource.k8s.io/v1"),
        OwnerRef("PersistentVolumeClaim", "j", "uid-j", True, "v1"),
    ],
    ids=[
        "a list in place of a name",
        "a long uid",
        "a long kind",
        "a long version",
        "a claim, whose labels nobody was asked about",
        "a claim of a volume",
    ],
)
def test_what_speaks_for_no_pod_is_neither_read_nor_remembered(forged: OwnerRef) -> None:
    async def story() -> None:
        client = cluster(*CHAIN)
        asked = []

        async def find(api_version: str, kind: str) -> Resource | None:
            asked.append(kind)
            return JOB

        lookup = Owners(client, find, clock=virtual.now)
        assert await lookup.chain("ns", forged) == []
        assert (asked, client.calls) == ([], [])

    virtual.run(story())


@pytest.mark.untraced
def test_what_is_remembered_is_bounded() -> None:
    async def story() -> None:
        client = cluster(*(owned("Job", f"j{number}") for number in range(owners.REMEMBERED + 1)))
        lookup = looking(client)
        for number in range(owners.REMEMBERED + 1):
            await lookup.top_owner("ns", controller("Job", f"j{number}"))
        client.calls.clear()
        await lookup.top_owner("ns", controller("Job", f"j{owners.REMEMBERED}"))
        await lookup.top_owner("ns", controller("Job", "j0"))
        assert [call.name for call in client.calls] == ["j0"]

    virtual.run(story())


LISTS = {
    "/apis/batch/v1": [("jobs", "Job", True), ("jobs/status", "Job", True)],
    "/api/v1": [("nodes", "Node", False)],
    "/apis/grove.io/v1beta1": [("podcliquesets", "PodCliqueSet", True)],
    "/apis/grove.io/v9": [("others", "Other", True), ("podcliquesets", "PodCliqueSet", True)],
}
VERSIONS = {
    "/apis/batch": ["batch/v1"],
    "/apis/grove.io": ["grove.io/v9", "grove.io/v1beta1"],
}
PREFERRED = Resource("grove.io", "podcliquesets", "PodCliqueSet", True, ("v9",))


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        pytest.param("batch/v1", "Job", JOB, id="of a group"),
        pytest.param("v1", "Node", Resource("", "nodes", "Node", False, ("v1",)), id="of the core"),
        pytest.param("batch/v1", "CronJob", None, id="a kind that isn't there"),
        pytest.param("ray.io/v1", "RayCluster", None, id="a group that isn't there"),
        pytest.param(
            "grove.io/v1beta1",
            "PodCliqueSet",
            replace(PREFERRED, versions=("v1beta1",)),
            id="in the version that is named",
        ),
        pytest.param(
            "grove.io/v1alpha1", "PodCliqueSet", PREFERRED, id="in a version that is served no more"
        ),
        pytest.param(
            "grove.io/v1beta1",
            "Other",
            Resource("grove.io", "others", "Other", True, ("v9",)),
            id="only in another version of its group",
        ),
        pytest.param("grove.io/v1alpha1", "Job", None, id="in no version of its group"),
    ],
)
async def test_kinds_are_found_by_discovery(
    api_version: str, kind: str, resource: Resource | None
) -> None:
    async def read(path: str) -> Object:
        if path in VERSIONS:
            return {"versions": [{"groupVersion": each} for each in VERSIONS[path]]}
        if path not in LISTS:
            raise NotFound(path, code=404)
        return {
            "resources": [
                {"name": n, "kind": k, "namespaced": scoped} for n, k, scoped in LISTS[path]
            ]
        }

    assert await Kinds(read).find(api_version, kind) == resource


async def test_an_expired_token_does_not_mean_that_a_kind_is_missing() -> None:
    async def read(path: str) -> Object:
        raise Rejected("Unauthorized", code=401)

    with pytest.raises(Rejected):
        await Kinds(read).find("batch/v1", "Job")


async def test_a_list_is_asked_for_once() -> None:
    asked: list[str] = []

    async def read(path: str) -> Object:
        asked.append(path)
        return {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}

    kinds = Kinds(read)
    assert [await kinds.find("batch/v1", "Job") for _ in range(2)] == [JOB, JOB]
    assert asked == ["/apis/batch/v1"]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("v1%2Fpods", "Job", id="a path in place of the version"),
        pytest.param("batch/v1?watch=true", "Job", id="a query"),
        pytest.param("..", "Job", id="the parent of the path"),
        pytest.param("batch/v1/namespaces", "Job", id="further parts"),
        pytest.param("/v1", "Job", id="an empty group"),
        pytest.param("batch/", "Job", id="no version"),
        pytest.param("batch/v1", "Job/x", id="a kind that none is"),
        pytest.param("x" * 300 + "/v1", "Job", id="a group that is too long"),
    ],
)
async def test_what_no_api_can_be_called_is_not_asked_for(api_version: str, kind: str) -> None:
    """API servers check neither in an owner reference, and both become parts of a path."""
    asked: list[str] = []

    async def read(path: str) -> Object:
        asked.append(path)
        return {}

    kinds = Kinds(read)
    assert await kinds.find(api_version, kind) is None
    client = cluster(*CHAIN)
    top = await Owners(client, kinds.find).top_owner(
        "ns", OwnerRef(kind, "j", "uid-j", True, api_version)
    )
    assert (top["metadata"]["name"], asked, client.calls) == ("j", [], [])


async def test_the_cached_owners_have_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants decide on the size of annotations: 10,000 owners may have 256 KiB each."""
    monkeypatch.setattr(owners, "REMEMBERED_BYTES", 3000)
    notes = {"a": "x" * 1000}
    client = cluster(*(owned("Job", str(number), annotations=notes) for number in range(5)))
    found = looking(client)
    for number in (0, 1, 2, 3, 4, 4, 3, 0):
        owner = await found.top_owner("ns", controller("Job", str(number)))
        assert owner["metadata"]["annotations"] == notes
    assert len(client.calls) == 6  # the last one of all was read again
