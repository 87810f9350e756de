"""KAI's pods that ask autoscalers for nodes, and reserve GPUs, are no workloads of their own."""

import pytest
from msgspec.structs import replace

from app.explain.answers.pending import waiting_alone
from app.explain.reasons.gpu_sharing import RESERVATIONS
from app.explain.state.index import Index
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.pod import Shape
from tests.explain.fleet import NOW, answer, facts, fill, nodes, pods, shape
from tests.explain.table.gpu_sharing import evicted, refused
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, part_of
from tests.explain.table.scaling import NOT, TRIGGERED, scaling

MEMORY = Shape(shape(0).requests, part=GpuPart(0.0, 4096))


def without_gpus(asks: Shape, *said: tuple[str, str, float]) -> Changes:
    """All pods share GPUs, and no node has any: the node groups of GPUs are empty."""
    changes = scaling(*said)
    has = {"cpu": 64_000, "memory": 1024 * 2**30 * 1000, "pods": 110_000}
    return {
        **changes,
        "pods": (*pods(shape=asks), changes["pods"][4]),
        "nodes": tuple(replace(node, allocatable=has) for node in nodes()),
    }


@pytest.mark.parametrize(
    ("event", "ids"),
    [
        pytest.param(("TriggeredScaleUp", TRIGGERED, 1), ["NodesComing"], id="a node comes"),
        pytest.param(("NotTriggerScaleUp", NOT, 1), ["NoNodeGroupHelps"], id="no node comes"),
    ],
)
@pytest.mark.parametrize("asks", [part_of(0.5), MEMORY], ids=["fraction", "memory"])
def test_empty_node_groups_are_no_fault_of_the_device_plugin(
    asks: Shape, event: tuple[str, str, float], ids: list[str], answered: Asking
) -> None:
    reasons = answered(facts(**without_gpus(asks, event))).reasons
    assert [reason.id for reason in reasons] == ids


@pytest.mark.parametrize(
    ("asks", "id"), [(part_of(0.5), "NeverFits"), (MEMORY, "GpuMemoryUnknown")]
)
def test_without_an_autoscaler_the_missing_devices_are_the_reason(
    asks: Shape, id: str, answered: Asking
) -> None:
    reasons = answered(facts(**without_gpus(asks))).reasons
    assert [each.id for each in reasons if each.severity == "problem"] == [id]


def test_the_newest_words_decide_whether_a_node_comes(answered: Asking) -> None:
    said = ("TriggeredScaleUp", TRIGGERED, 9), ("NotTriggerScaleUp", NOT, 2)
    ids = {reason.id for reason in answered(facts(**scaling(*said))).reasons}
    assert ids & {"NodesComing", "NoNodeGroupHelps"} == {"NoNodeGroupHelps"}


def test_an_announcement_may_have_only_its_first_time(answered: Asking) -> None:
    changes = scaling(("TriggeredScaleUp", TRIGGERED, 1))
    events = tuple(replace(each, time=None, first=NOW - 1800) for each in changes["events"])
    reasons = answered(facts(**{**changes, "events": events})).reasons
    [text] = [reason.text for reason in reasons if reason.id == "NodesComing"]
    assert text.startswith("The autoscaler announced nodes 30 minutes ago: ")


def test_nobody_is_to_wait_for_a_scaling_pod_that_ends_at_once(answered: Asking) -> None:
    changes = scaling(node="gpu-00", phase="Running")
    others = tuple(pod for pod in changes["pods"] if pod.node != "gpu-00" or pod.scales_for)
    reasons = answered(facts(**{**changes, "pods": (*others, *fill("rack-a1"))})).reasons
    remedies = [reason.remedy for reason in reasons if reason.id == "NoDomainFits"]
    assert remedies
    assert not any("inference-w" in remedy for remedy in remedies)


def test_helpers_of_kai_are_no_pending_workloads() -> None:
    asks = scaling()["pods"][4]
    reserves = replace(asks, name="reserves", scales_for=None, reserves=True)
    plain = replace(asks, name="plain", scales_for=None)
    index = Index(facts(pods=(asks, reserves, plain), now=NOW))
    assert list(waiting_alone(index)) == [plain.ref]


@pytest.mark.parametrize("changes", [evicted(), refused()], ids=["evicted", "refused"])
def test_a_pod_that_anybody_gave_the_label_of_kais_pods_makes_nobody_cordon_a_node(
    changes: Changes,
) -> None:
    def ids(namespace: str) -> set[str]:
        own = tuple(
            replace(pod, namespace=namespace) if pod.reserves else pod for pod in changes["pods"]
        )
        return {reason.id for reason in answer(facts(**{**changes, "pods": own})).reasons}

    assert len(ids(RESERVATIONS) & {"ReservationEvicted", "ReservationRefused"}) == 1
    assert not ids("team-of-somebody") & {"ReservationEvicted", "ReservationRefused"}
