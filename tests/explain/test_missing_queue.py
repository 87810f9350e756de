"""Which queue a gang is told to use if its own is missing.

Tests `app/explain/reasons/missing_queue.py`.
"""

import pytest

from app.facts.kai.queue import Queue
from tests.explain.fleet import answer, facts, pod_group

TWO = (Queue("root"), Queue("team-llm", "root"), Queue("research", "root"))
ONE = TWO[:2]


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
    queues: tuple[Queue, ...], named: str, told: str
) -> None:
    reasons = answer(facts(queues=queues, pod_groups=(pod_group(queue=named),))).reasons
    (reason,) = [each for each in reasons if each.id == "QueueMissing"]
    (command,) = reason.commands
    assert command.startswith("kubectl patch ")
    assert f'{{"spec":{{"queue":"{told}"}}}}' in command
