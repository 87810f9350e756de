"""Which queue a gang is told to use if its own is missing.

Tests `app/explain/reasons/missing_queue.py`.
"""

import pytest
from msgspec.structs import replace

from app.base.spelling import MOST_COMPARED
from app.explain.reasons import missing_queue
from app.explain.state.index import Index
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from tests.explain.fleet import facts, pod_group, pods
from tests.explain.table.recorded import Asking
from tests.explain.table.row import queues as of_team

TWO = (Queue("root"), Queue("team-llm", "root"), Queue("research", "root"))
ONE = TWO[:2]


@pytest.mark.parametrize(
    ("queues", "named", "told"),
    [
        (ONE, "x", "the only usable queue is team-llm"),
        (TWO, "x", "usable queues are research and team-llm"),
        (TWO, "team-lmm", 'usable queues are research and team-llm; did you mean "team-llm"?'),
        pytest.param(
            (Queue("root"), Queue("team-alpha", "root"), Queue("team-beta", "root")),
            "team-gamma",
            "usable queues are team-alpha and team-beta",
            id="another team's queue is no typo",
        ),
        pytest.param((*ONE, Queue("")), "x", "the only usable queue is team-llm", id="a nameless"),
    ],
)
def test_the_reason_names_the_usable_queues(
    queues: tuple[Queue, ...], named: str, told: str, answered: Asking
) -> None:
    reasons = answered(facts(queues=queues, pod_groups=(pod_group(queue=named),))).reasons
    (reason,) = [each for each in reasons if each.id == "QueueMissing"]
    assert reason.text == f"Queue {named} does not exist; {told}"


@pytest.mark.parametrize(
    ("queues", "named", "told"),
    [
        pytest.param(TWO, "team-lm", "team-llm", id="the one that is like it"),
        pytest.param(TWO, "x", "QUEUE", id="any of two"),
        pytest.param(ONE, "x", "team-llm", id="the only one"),
        pytest.param(ONE, "team-lm", "team-llm", id="the only one, which is like it"),
    ],
)
def test_the_command_names_the_queue_if_there_is_no_choice(
    queues: tuple[Queue, ...], named: str, told: str, answered: Asking
) -> None:
    reasons = answered(facts(queues=queues, pod_groups=(pod_group(queue=named),))).reasons
    (reason,) = [each for each in reasons if each.id == "QueueMissing"]
    (command,) = reason.commands
    assert command.startswith("kubectl patch ")
    assert f'{{"spec":{{"queue":"{told}"}}}}' in command


def test_a_bounded_number_of_missing_queues_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 PodGroups with misspelt queues take 5 s beside 300 queues."""
    compared = []

    def similar(name: str, *others: object) -> list[str]:
        compared.append(name)
        return ["team-llm"]

    monkeypatch.setattr(missing_queue, "alike", similar)
    groups = tuple(
        replace(pod_group(queue=f"team-{number % 200}"), name=f"g{number}", uid=f"u{number}")
        for number in range(600)
    )
    index = Index(facts(queues=TWO, pod_groups=groups))
    found = [missing_queue._meant(index, group.queue, ["root"]) for group in groups]
    assert len(compared) == MOST_COMPARED
    assert found[:3] == ["team-llm"] * 3
    assert found[199] == ""
    assert missing_queue._meant(Index(facts()), "q" * 64, ["root"]) == ""


@pytest.mark.parametrize(
    ("queues", "text", "ends"),
    [
        pytest.param(
            TWO,
            "Queue default-queue, which KAI uses for workloads without a queue label, does not exist",
            "not from an annotation or from the old label runai/queue",
            id="two others",
        ),
        pytest.param(
            ONE,
            "Queue default-queue, which KAI uses for workloads without a queue label, does not exist",
            "not from an annotation or from the old label runai/queue",
            id="one other",
        ),
        pytest.param(
            (Queue("root"), Queue("default-queue", "root"), Queue("a", "default-queue")),
            "Queue default-queue has child queues",
            "KAI does not update a PodGroup that exists",
            id="it exists, and cannot be used",
        ),
    ],
)
def test_the_queue_of_workloads_without_a_label_of_the_queue(
    queues: tuple[Queue, ...], text: str, ends: str, answered: Asking
) -> None:
    group = pod_group(queue="default-queue")
    reasons = answered(facts(queues=queues, pod_groups=(group,))).reasons
    (reason,) = [each for each in reasons if each.id == "QueueMissing"]
    assert reason.text.startswith(text)
    assert reason.remedy.endswith(ends)


OTHER = "If queue {} is meant, which the label of the pods names, set spec.queue of PodGroup llm-0"
FIXED = pod_group(preemptibility="non-preemptible")


@pytest.mark.parametrize(
    ("labels", "group", "bounds", "named"),
    [
        pytest.param(("team-b",), pod_group(), {"limit": 8_000}, "team-b", id="a limit"),
        pytest.param(("team-b",), FIXED, {"quota": 8_000}, "team-b", id="a quota"),
        pytest.param(("team-llm",), pod_group(), {"limit": 8_000}, "", id="the same queue"),
        pytest.param(("",), pod_group(), {"limit": 8_000}, "", id="no label"),
        pytest.param(("team-x",), pod_group(), {"limit": 8_000}, "", id="it does not exist"),
        pytest.param(("team-b", "team-llm"), pod_group(), {"limit": 8_000}, "", id="two labels"),
    ],
)
def test_the_podgroup_keeps_the_queue_that_the_label_named_before(
    labels: tuple[str, ...],
    group: KaiPodGroup,
    bounds: dict[str, int],
    named: str,
    answered: Asking,
) -> None:
    """KAI's pod-grouper does not change the queue of a PodGroup that exists."""
    asking = tuple(
        replace(pod, queue=labels[number % len(labels)]) for number, pod in enumerate(pods())
    )
    state = facts(pods=asking, pod_groups=(group,), queues=of_team(**bounds))
    [reason] = [each for each in answered(state).reasons if each.id.startswith("Queue")]
    assert (OTHER.format(named) in reason.remedy) is bool(named)
    patches = [command for command in reason.commands if '"queue":"team-b"' in command]
    assert len(patches) == bool(named)


def test_the_queue_of_the_label_replaces_one_that_is_missing(answered: Asking) -> None:
    asking = tuple(replace(pod, queue="research") for pod in pods())
    state = facts(pods=asking, queues=TWO, pod_groups=(pod_group(queue="team-lm"),))
    (reason,) = [each for each in answered(state).reasons if each.id == "QueueMissing"]
    assert reason.text.endswith('did you mean "research"?')
    assert '"queue":"research"' in reason.commands[0]


@pytest.mark.parametrize("others", [(), ONE, TWO], ids=["no other", "one other", "two others"])
def test_the_parent_of_a_queue_is_created_or_corrected(
    others: tuple[Queue, ...], answered: Asking
) -> None:
    """The queues of other teams are no remedy for it."""
    queues = (*others, Queue("team-nlp", "research-old"))
    reasons = answered(facts(queues=queues, pod_groups=(pod_group(queue="team-nlp"),))).reasons
    (reason,) = [each for each in reasons if each.id == "QueueMissing"]
    assert (reason.who, reason.commands) == ("platform", ())
    assert reason.remedy == (
        "Ask the platform team to create queue research-old, or to correct spec.parentQueue of"
        " team-nlp"
    )
