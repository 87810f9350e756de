"""Opting out of Workloads, on the Pod and on its top owner, at any time of a Pod that is pending."""

from typing import Any

import pytest

from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef
from app.objects.resource import POD
from tests import builders
from tests.integration.system import eventually
from tests.integration.workload.conftest import Play, controlled_by

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

OPT_OUT = {"kai.scheduler/ignore-workload-api": "true"}
MARK = {"kai.scheduler/skip-podgrouper": "true"}
PATCH: Object = {"metadata": {"annotations": OPT_OUT}}
RELEASED = (None, None)


async def owner(play: Play) -> dict[str, Any]:
    """Create a top owner, and return the metadata of its Pods."""
    top = await play.client.create(POD_CLIQUE_SET, builders.pod_clique_set("top"), play.namespace)
    return {"ownerReferences": [controlled_by(top)]}


async def until_released(play: Play, pod: str) -> None:
    assert await eventually(lambda: play.told(pod), lambda told: told == RELEASED) == RELEASED
    assert await eventually(play.reasons, lambda reasons: "WorkloadIgnored" in reasons)


@pytest.mark.statement("W.31")
async def test_a_pending_pod_that_is_annotated_is_given_back_to_kai(play: Play) -> None:
    await play.ready_pod("w")
    await play.client.patch(ObjectRef(POD, "w", play.namespace), PATCH)
    await until_released(play, "w")
    assert await eventually(play.pod_groups, lambda groups: groups == {}) == {}


@pytest.mark.statement("W.37")
async def test_a_pod_that_waits_for_its_workload_is_given_back_to_kai(play: Play) -> None:
    await play.pod("p", "missing", "g")
    assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
    assert await play.told("p") == (None, "true")
    await play.client.patch(ObjectRef(POD, "p", play.namespace), PATCH)
    await until_released(play, "p")


@pytest.mark.statement("W.32")
async def test_a_copy_of_a_pod_with_both_annotations_and_the_opt_out_loses_them(play: Play) -> None:
    await play.ready_pod("w")
    await play.pod("copy", "w", "g", annotations={**MARK, **OPT_OUT, "pod-group-name": "w-g"})
    await until_released(play, "copy")
    assert await play.told("w") == ("w-g", "true")


@pytest.mark.statement("W.34")
async def test_a_pod_that_is_created_after_its_top_owner_opted_out_is_not_grouped(
    play: Play,
) -> None:
    metadata = await owner(play)
    for name in ("v", "w"):
        await play.workload(name, {"g": 1})
        await play.instance(name, "g", 1)
    await play.pod("before", "v", "g", **metadata)
    await play.until_told("before", "v-g")
    await play.client.patch(ObjectRef(POD_CLIQUE_SET, "top", play.namespace), PATCH)
    await play.pod("after", "w", "g", **metadata)
    await until_released(play, "after")
    await until_released(play, "before")
    assert await eventually(play.pod_groups, lambda groups: groups == {}) == {}
