"""Workloads without an answer: only events name them, or what tells of them may not be read."""

from typing import Any

import pytest

from app.commands.explain import is_gone, not_found, without_gone
from app.explain.answers.answer import explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.kube.api import Page, Selection
from app.objects.resource import JOB
from tests.explain.fleet import NAMESPACE, NOW
from tests.explain.test_read import Cluster

KEPT, GONE = (Ref("Job", NAMESPACE, name) for name in ("kept", "gone"))
FACTS = Snapshot(
    events=tuple(
        Event(f"uid-{ref.name}", "FailedCreate", "no", NOW - 60, "job-controller", ref, True)
        for ref in (KEPT, GONE)
    ),
    now=NOW,
)


class OneJob(Cluster):
    """A cluster that has one Job, and answers field selectors."""

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        assert selection.resource == JOB
        assert selection.metadata_only
        is_asked = selection.fields in ("", f"metadata.name={KEPT.name}")
        metadata = {"namespace": NAMESPACE, "name": KEPT.name}
        found = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}]
        return Page(found if is_asked else [], "1", "")


async def test_the_list_has_no_workload_that_was_deleted() -> None:
    kept = await without_gone(OneJob(FACTS), FACTS)
    assert [event.about for event in kept.events] == [KEPT]


async def test_a_workload_that_was_deleted_is_not_explained() -> None:
    index = Index(FACTS)
    answers = [explain(index, ref) for ref in (KEPT, GONE)]
    gone = [await is_gone(OneJob(FACTS), index, answer) for answer in answers if answer]
    assert gone == [False, True]


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [
        ({"denied": [("jobs", NAMESPACE)]}, True),
        ({"broken": ["jobs"]}, True),
        ({"unserved": ["jobs"]}, False),
    ],
    ids=["no permission", "the API server is down", "the kind is not served"],
)
async def test_a_workload_that_cannot_be_read_counts_as_existing(
    options: dict[str, Any], is_kept: bool
) -> None:
    cluster = Cluster(FACTS, **options)
    kept = await without_gone(cluster, FACTS)
    assert [event.about for event in kept.events] == ([KEPT, GONE] if is_kept else [])

    index = Index(FACTS)
    answer = explain(index, GONE)
    assert answer is not None
    assert await is_gone(cluster, index, answer) is not is_kept


GROUP = Ref("PodCliqueScalingGroup", NAMESPACE, "llm-0-pool")


@pytest.mark.parametrize(
    ("unseen", "words"),
    [
        ({}, f"{GROUP} exists in namespace {NAMESPACE} but has no pods yet"),
        (
            {"cliques": "no permission to list"},
            f"You have no permission to get and list podcliques.grove.io in namespace {NAMESPACE},"
            f" so {GROUP} can't be explained\n",
        ),
        (
            {"cliques": "no answer"},
            f"{GROUP} exists in namespace {NAMESPACE} but can't be explained; not seen: PodCliques"
            " (no answer)\n",
        ),
    ],
    ids=["no pods", "no permission", "no answer"],
)
def test_an_object_without_pods_has_none_only_if_they_could_be_read(
    unseen: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not_found(Index(Snapshot(unseen=unseen)), GROUP, [GROUP]) == 2
    assert capsys.readouterr().err.startswith(words)
