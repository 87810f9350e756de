"""Components of KAI whose pods do not run.

Tests `not_running` in `app/explain/reasons/messages.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kubernetes.pod import Pod, Stalled
from tests.explain.fleet import NOW, facts, occupant, pods
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, event

KILLED = Stalled("main", "CrashLoopBackOff", restarts=7, ended="OOMKilled")
CRASHES = {"waiting": ("CrashLoopBackOff",), "stalled": (KILLED,)}
SAID = "does not run: Container main is in CrashLoopBackOff (7 restarts, OOMKilled)"


def of_kai(name: str, **changes: Any) -> Pod:
    made = occupant("gpu-15", gpus=0, namespace="kai-scheduler", name=name, uid=f"uid-{name}")
    return replace(made, **changes)


WAITING = pods(created=NOW - 1800)
SILENT: Changes = {"pods": WAITING}
UNGROUPED: Changes = {"pods": tuple(replace(pod, group="") for pod in WAITING)}
ASSIGNED: Changes = {
    "pods": WAITING,
    "events": tuple(
        replace(event(pod.uid, "Scheduled", "Successfully assigned"), time=NOW - 600)
        for pod in WAITING
    ),
}


@pytest.mark.parametrize(
    ("state", "id", "name"),
    [
        pytest.param(SILENT, "KaiSilent", "kai-scheduler-default-5f", id="a scheduler"),
        pytest.param(SILENT, "KaiSilent", "scheduler-5f", id="a scheduler of an old release"),
        pytest.param(UNGROUPED, "NotGrouped", "pod-grouper-5f", id="the pod-grouper"),
        pytest.param(ASSIGNED, "BindingFailed", "binder-5f", id="the binder"),
    ],
)
def test_a_component_that_does_not_run_is_named(
    state: Changes, id: str, name: str, answered: Asking
) -> None:
    def text(*components: Pod) -> str:
        changed = state | {"pods": (*state["pods"], *components)}
        reasons = answered(facts(**changed)).reasons
        [reason] = [reason for reason in reasons if reason.id == id]
        return reason.text

    broken = of_kai(name, **CRASHES)
    assert text(broken).endswith(f". Pod {name} {SAID}")
    assert "does not run" not in text()
    assert "does not run" not in text(of_kai(name))
    assert "does not run" not in text(broken, of_kai(f"{name}-2"))  # a second replica runs
    assert "does not run" not in text(replace(broken, namespace="team-x"))
    assert "does not run" not in text(of_kai("admission-5f", **CRASHES))
