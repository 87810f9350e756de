"""The message about ready replicas."""

from app.doctor.replicas import check_replicas
from tests.doctor.answering import AnsweringClient


async def test_a_surge_of_a_rollout_is_not_counted() -> None:
    """With maxSurge, an old replica may still be ready next to all new ones."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "grove-admission", "namespace": "ns"},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": 3},
    }
    (check,) = await check_replicas(AnsweringClient([deployment]), "ns", "1.0.0", 10)
    assert check.message == "Deployment ns/grove-admission has 2 of 2 replicas ready"
