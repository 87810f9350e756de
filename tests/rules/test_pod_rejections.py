"""Pod specs with which API servers create no pods."""

from typing import Any

import pytest

from app.objects.fields import FieldPath
from app.rules.pod_rejections import pod_warnings

GPU = "nvidia.com/gpu"


def spec(*containers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A pod spec whose containers have a name."""
    return {"containers": [{"name": "c", **each} for each in containers], **changes}


def asking(**resources: Any) -> dict[str, Any]:
    return spec({"resources": resources})


RESOURCES = "containers[0].resources"


@pytest.mark.parametrize(
    ("pod", "warnings"),
    [
        pytest.param(
            asking(requests={GPU: 8}),
            [f"{RESOURCES}.limits[{GPU}]: set it to 8 too, or only the limit"],
            id="GPUs without a limit",
        ),
        pytest.param(
            asking(requests={GPU: 4}, limits={GPU: "8"}),
            [f"{RESOURCES}.requests[{GPU}]: 4 differs from the limit 8"],
            id="fewer GPUs than the limit",
        ),
        pytest.param(
            asking(limits={GPU: 0.5, "example.com/nic": "1500m"}),
            [
                f"{RESOURCES}.limits[{GPU}]: 0.5 is not a whole number. For a part of a GPU, use"
                " KAI's annotation gpu-fraction",
                f"{RESOURCES}.limits[example.com/nic]: 1500m is not a whole number",
            ],
            id="a part of a device",
        ),
        pytest.param(
            asking(requests={"hugepages-2Mi": "4Mi"}),
            [f"{RESOURCES}.limits[hugepages-2Mi]: set it to 4Mi too, or only the limit"],
            id="huge pages without a limit",
        ),
        pytest.param(
            asking(requests={"memory": "2Gi"}, limits={"memory": "1Gi"}),
            [f"{RESOURCES}.requests[memory]: 2Gi is more than the limit 1Gi"],
            id="more than the limit",
        ),
        pytest.param(
            asking(requests={"memory": "64GB"}, limits={"memory": "64Gi"}),
            [f'{RESOURCES}.requests[memory]: "64GB" is not a quantity, such as 8 or 64Gi'],
            id="an unknown unit",
        ),
        pytest.param(
            asking(requests={"cpu": 1, GPU: 8}, limits={GPU: "8", "memory": "64Gi"}),
            [],
            id="correct amounts",
        ),
        pytest.param(
            spec({"name": "My_Container"}, {}, {}),
            [
                'containers[0].name: "My_Container" is not a name of lowercase letters, digits'
                " and '-'",
                "containers[2].name: another container is called c too",
            ],
            id="names",
        ),
        pytest.param(
            spec({}, initContainers=[{"name": "c"}]),
            ["containers[0].name: another container is called c too"],
            id="an init container of the same name",
        ),
        pytest.param(spec(), ["containers: a pod needs a container"], id="no container"),
        pytest.param(
            spec(
                {"volumeMounts": [{"name": name, "mountPath": "/v"} for name in "abc"]},
                volumes=[{"name": "a"}],
            ),
            ['containers[0].volumeMounts[2].name: the pod has no volume "c"'],
            id="volumes",
        ),
    ],
)
def test_api_servers_reject(pod: dict[str, Any], warnings: list[str]) -> None:
    said = [
        text.replace(" API servers reject such pods:", "")
        for text in pod_warnings(FieldPath(""), pod, {"b"})
    ]
    assert said == warnings
