"""Read requests for fractions of GPUs, and the memory of GPUs, as KAI reads them.

Sources, all in `pkg/scheduler/api` of KAI: `pod_info/pod_info.go` (`updatePodAdditionalFields`),
`resource_info/gpu_resource_requirment.go` and `node_info/node_info.go` (`getNodeGpuMemory`).
"""

import math
import re
from collections.abc import Mapping

from app.base.value import Value
from app.objects.shape import JsonMap, integer_in, text_at

GPU_FRACTION = "gpu-fraction"
GPU_MEMORY = "gpu-memory"
FRACTION_DEVICES = "gpu-fraction-num-devices"
GPU_GROUP = "runai-gpu-group"
"""The label with the name of the GPU that a pod shares. Each shared GPU has another name.

A pod that shares several GPUs has a label for each of them. Their keys begin with this one.
"""

MEMORY_LABEL = "nvidia.com/gpu.memory"
WITHOUT_LABEL = 100
"""The memory that KAI assumes for each GPU of a node without MEMORY_LABEL, in MiB.

Requested amounts of memory are then percentages.
"""

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", re.ASCII)
_MEBIBYTES = 1024 * 1024


class GpuPart(Value):
    """A pod's request for fractions of GPUs, which it shares with other pods."""

    portion: float
    """The requested fraction of each GPU."""
    memory: int = 0
    """The requested memory of each GPU in MiB, or 0. The pod gets it instead of `portion`."""
    devices: int = 1
    """The number of requested GPUs."""

    @property
    def gpus(self) -> int:
        """The GPUs that KAI counts for the request, in thousandths, or 0 if it is only for memory.

        KAI rounds the portion to hundredths (`getExtendedResourceGpus`).
        """
        return math.floor(self.portion * 100 + 0.5) * self.devices * 10

    def memory_of_each(self, of_gpu: int) -> int:
        """Return the memory in MiB that the pod gets of each GPU (`GetResourceGpuMemory`).

        `of_gpu` is the memory of such a GPU in MiB.
        """
        return self.memory or int(self.portion * of_gpu)

    def share_of_each(self, of_gpu: int) -> float:
        """Return the fraction of each GPU that KAI counts for the request after placement.

        `of_gpu` is the memory of such a GPU in MiB. If the request is for memory, the fraction is
        rounded up to hundredths.
        """
        return math.ceil(self.memory / of_gpu * 100) / 100 if self.memory else self.portion


def read_part(annotations: JsonMap) -> GpuPart | None:
    """Return the request for GPU fractions in the annotations of a pod, or None without one.

    A fraction counts only if it is more than 0 and at most 1.
    """
    memory = integer_in(text_at(annotations, GPU_MEMORY)) or 0
    portion = _portion(text_at(annotations, GPU_FRACTION))
    if not (portion or memory > 0):
        return None
    devices = integer_in(text_at(annotations, FRACTION_DEVICES))
    if devices is not None:
        return GpuPart(portion, max(0, memory), max(0, devices))
    return GpuPart(portion) if portion else GpuPart(0.0, memory)


def groups_of(labels: JsonMap) -> tuple[str, ...]:
    """Return the names of the shared GPUs in the labels of a pod.

    KAI's binder gives a pod with a fraction of one GPU one label, and a pod with fractions of
    several GPUs a label for each of them (`resource_reservation.go`).
    """
    keys = [key for key in labels if key.startswith(GPU_GROUP)]
    if not keys:
        return ()
    return tuple(dict.fromkeys(filter(None, (text_at(labels, key) for key in sorted(keys)))))


def memory_of_gpus(labels: Mapping[str, str]) -> int | None:
    """Return the memory of each GPU of a node in MiB, or None if the node has no valid label.

    KAI rounds the memory down to hundreds. It reads a value of 1,048,576 or more as bytes.
    """
    memory = integer_in(labels.get(MEMORY_LABEL, ""))
    if memory is None:
        return None
    if memory >= _MEBIBYTES:
        memory //= _MEBIBYTES
    return memory - memory % 100


def _portion(text: str) -> float:
    value = float(text) if _DECIMAL.fullmatch(text) else 0.0
    return value if 0 < value <= 1 else 0.0
