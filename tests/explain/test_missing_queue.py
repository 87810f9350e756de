"""Which queue a gang is told to use if its own is missing.

Tests `app/explain/reasons/missing_queue.py`.
"""

import pytest
from msgspec.structs import replace

from app.base.spelling import MOST_COMPARED
from app.explain.reasons import missing_queue
from app.explain.state.index import Index
from app.facts.kai.queue import Queue
from tests.explain.fleet import facts, pod_group
from tests.explain.table.recorded import Asking

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
