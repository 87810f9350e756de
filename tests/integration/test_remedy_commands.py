"""Each command that explain prints, carried out on an API server: it is accepted, a write changes
an object, and the reason is gone from the next answer.
"""

import shlex
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
import pytest_asyncio

from app.commands.explain import reference
from app.explain.answers.answer import Answer, explain
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.explain.state.read import read_list
from app.explain.state.snapshot import RESOURCES, Snapshot
from app.facts.identity import Ref
from app.kube.api import ClusterError, NotFound, Object, ObjectRef
from app.kube.client import HttpClient
from app.objects.resource import CRD, Resource
from scripts.apiserver.admission_server import ApiServer
from tests.effort import IS_THOROUGH, tries
from tests.explain.commands import (
    KINDS,
    UNREAD,
    Refused,
    commands_of,
    filled,
    kubectl_commands,
    parsed,
)
from tests.explain.fleet import NOW, SET_REF, answer, facts
from tests.explain.test_contradictions import Clusters, contradictions
from tests.explain.test_reasons import ROWS, start
from tests.explain.test_remedy_commands import CHANGED_ONLY, COMMANDED, MORE
from tests.integration.kubectl import ByProgram, ByRequests, Kubectl
from tests.integration.stage import BY_THE_SERVER, Stage, staged
from tests.integration.system import connect

pytestmark = pytest.mark.untraced

HOUR = 3600.0
ADMISSION_CHECK: Object = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "AdmissionCheck",
    "metadata": {"name": "prov"},
}
"""Workloads of the table name it, so that it exists."""


def definition(resource: Resource) -> Object:
    """The CRD of a kind that we never read."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.versions[0], "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class Stand:
    """An API server with a state of the table on it, and who carries commands out there."""

    def __init__(self, dialect: str, stage: Stage, admin: HttpClient, later: float) -> None:
        self.dialect = dialect
        self._stage = stage
        self._admin = admin
        self._later = later

    async def show(self, snapshot: Snapshot) -> None:
        await self._stage.show(snapshot)

    async def reasons(self, ref: Ref = SET_REF) -> list[Reason]:
        return list((await self.answer(ref)).reasons)

    async def answer(self, ref: Ref) -> Answer:
        """What explain says now. What the server has made is an hour old."""
        read = await read_list(
            self._admin, ref.namespace, room=True, now=NOW + self._later, asked=ref
        )
        told = explain(Index(read), ref)
        assert told is not None, ref
        return told

    async def stored(self, refs: Sequence[ObjectRef]) -> list[Object | None]:
        return [await self._stored(ref) for ref in refs]

    async def _stored(self, ref: ObjectRef) -> Object | None:
        try:
            stored = await self._admin.get(ref)
        except NotFound:
            return None
        return {key: stored["metadata"].get(key) for key in ("resourceVersion", "uid")}

    async def forget(self, refs: Sequence[ObjectRef]) -> None:
        """Remove what was changed, so that the next state has it again."""
        for ref in refs:
            await self._stage.remove((ref.resource.kind, ref.namespace or "", ref.name))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["design", "today"])
async def served(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, ApiServer]]:
    dialect = str(request.param)
    async with staged(tmp_path_factory.mktemp(dialect), dialect, [], kind) as (server, _):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await server.apply([namespace, *map(definition, UNREAD), ADMISSION_CHECK])
        yield dialect, server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(served: tuple[str, ApiServer]) -> AsyncIterator[Stand]:
    dialect, server = served
    later = time.time() + HOUR - NOW
    async with await connect(server, "admin", (*RESOURCES, *KINDS, CRD)) as admin:
        yield Stand(dialect, Stage(admin, dialect, later), admin, later)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["requests", "kubectl"])
async def kubectl(
    request: pytest.FixtureRequest, served: tuple[str, ApiServer]
) -> AsyncIterator[Kubectl]:
    _, server = served
    if request.param == "kubectl":
        if not shutil.which("kubectl"):
            pytest.skip("kubectl is not in the PATH")
        yield ByProgram(server.kubeconfig)
        return
    async with await connect(server, "admin", (*RESOURCES, *KINDS)) as client:
        yield ByRequests(client)


def states(id: str, dialect: str) -> Iterator[tuple[str, Snapshot]]:
    """The states of a reason, each in one dialect, or in all if the tests are to be thorough."""
    for row in ROWS:
        dialects = row.dialects if IS_THOROUGH else row.dialects[:1]
        if row.id != id or dialect not in dialects or "absent" in row.hit:
            continue
        snapshot = facts(**{**start(dialect), **row.hit})
        if not any(claim.domain for claim in snapshot.claims):  # its uid is the server's
            yield row.name, snapshot
    if dialect == "design":
        yield from ((name, facts(**changes)) for own, name, changes in MORE if own == id)


@pytest.mark.parametrize("id", sorted(COMMANDED))
async def test_a_command_ends_the_reason_that_names_it(
    id: str, stand: Stand, kubectl: Kubectl
) -> None:
    if id in BY_THE_SERVER:
        pytest.skip(BY_THE_SERVER[id])
    wrong = []
    carried_out = 0
    for name, snapshot in states(id, stand.dialect):
        await stand.show(snapshot)
        # a status is read only if its workload is asked about
        ref = snapshot.workload_statuses[0].ref if snapshot.workload_statuses else SET_REF
        for reason in [each for each in await stand.reasons(ref) if each.id == id]:
            count, said = await followed(stand, kubectl, reason, snapshot, ref)
            carried_out += count
            wrong += [f"{name}: {words}" for words in said]
    assert "\n".join(wrong) == ""
    assert carried_out or stand.dialect == "today"


async def test_no_command_is_without_effect_in_random_clusters(
    stand: Stand, kubectl: Kubectl
) -> None:
    """The first write that explain proposes to each pending gang."""
    wrong = []
    carried_out = 0
    for seed in range(tries(25, 300)):
        snapshot = Clusters(seed).index.facts
        await stand.show(snapshot)
        for group in snapshot.pod_groups:
            found = [each for each in await stand.reasons(group.ref) if writes_of(each)]
            for reason in found[:1]:
                count, said = await followed(stand, kubectl, reason, snapshot, group.ref)
                carried_out += count
                wrong += [f"{seed}, {group.name}: {words}" for words in said]
    assert "\n".join(wrong) == ""
    assert carried_out > 5


async def test_explain_knows_each_object_about_which_it_says_to_ask_it(stand: Stand) -> None:
    asked = 0
    for row in ROWS:
        if stand.dialect != row.dialects[0] or "absent" in row.hit or row.hit.get("gang_maps"):
            continue
        snapshot = facts(**{**start(stand.dialect), **row.hit})
        texts = [text for each in answer(snapshot).reasons for text in commands_of(each)]
        for text in texts:
            if text.startswith("grove-admission explain "):
                name, _, namespace = shlex.split(text)[2:]
                await stand.show(snapshot)
                await stand.reasons(reference(name, namespace))
                asked += 1
    assert asked or stand.dialect == "today"


def writes_of(reason: Reason) -> list[str]:
    return [text for text in kubectl_commands(reason) if parsed(text).writes]


async def followed(
    stand: Stand, kubectl: Kubectl, reason: Reason, snapshot: Snapshot, ref: Ref
) -> tuple[int, list[str]]:
    """How many commands of a remedy were carried out, and what is wrong with them."""
    texts = [each for text in kubectl_commands(reason) for each in filled(text, reason, snapshot)]
    wrong = [words for text in texts for words in await carry_out(stand, kubectl, text)]
    if writes_of(reason):
        after = await stand.answer(ref)
        wrong += contradictions(after)
        left = [each for each in after.reasons if each.id == reason.id]
        if reason in left:
            wrong.append(f"the answer is the same: {reason.remedy}")
        elif reason.id not in CHANGED_ONLY:
            same = [each for each in left if is_same(each, reason)]
            wrong += [f"{reason.remedy}: it still says {each.text}" for each in same[:1]]
    await stand.forget([each for text in texts for each in parsed(text).refs])
    await stand.show(snapshot)
    return len(texts), wrong


def is_same(one: Reason, other: Reason) -> bool:
    """Whether both are about the same field of an object, and the same part of a gang."""
    fields = [[(each.object, each.field) for each in own.evidence] for own in (one, other)]
    return fields[0] == fields[1] and one.parts == other.parts


async def carry_out(stand: Stand, kubectl: Kubectl, text: str) -> list[str]:
    """What is wrong with a command: the server refuses it, or a write changes nothing."""
    command = parsed(text)
    before = await stand.stored(command.refs)
    try:
        await kubectl.run(text)
    except (Refused, ClusterError) as error:
        return [f"{text}: {error}"]
    after = await stand.stored(command.refs)
    return [
        f"{text}: {ref.resource} {ref.name} is unchanged"
        for ref, old, new in zip(command.refs, before, after, strict=True)
        if command.writes and old == new
    ]
