"""The mutating policy, which the sandbox does not evaluate."""

import itertools

import pytest

from app.kube.api import Object
from app.objects.resource import POD
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually
from tests.rendered import rendered

pytestmark = [
    pytest.mark.untraced,
    pytest.mark.parametrize("kind", ["real"], indirect=True, scope="module"),
]

MARK = {"kai.scheduler/skip-podgrouper": "true"}


async def test_a_pod_of_a_podgroup_is_marked_while_no_webhook_is_installed(
    api: ApiServer, clients: Users, namespace: str
) -> None:
    await api.apply(rendered("overlays/policies-mutating"))
    numbers = itertools.count()

    async def marks(**spec: object) -> Object:
        container = {"name": "main", "image": "registry.example/train:1"}
        pod = {
            "metadata": {"name": f"trainer-{next(numbers)}"},
            "spec": {"schedulerName": "kai-scheduler", "containers": [container], **spec},
        }
        stored = await clients.admin.create(POD, pod, namespace)
        annotations: Object = stored["metadata"].get("annotations") or {}
        return annotations

    async def marks_in_a_group() -> Object:
        return await marks(schedulingGroup={"podGroupName": "workers"})

    # an API server takes a second until it uses a new policy
    assert await eventually(marks_in_a_group, lambda found: found == MARK) == MARK
    assert await marks() == {}
