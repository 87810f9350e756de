"""Parts of GPUs that pods share, as KAI reads them from annotations of pods and labels of nodes.

Sources, all in `pkg/scheduler/api` of KAI: `pod_info/pod_info.go` (`updatePodAdditionalFields`),
`resource_info/gpu_resource_requirment.go` and `node_info/node_info.go` (`getNodeGpuMemory`).
"""

import math
import re
from collections.abc import Mapping

from app.base.value import Value
from app.objects.shape import JsonMap, text_at

GPU_FRACTION = "gpu-fraction"
GPU_MEMORY = "gpu-memory"
FRACTION_DEVICES = "gpu-fraction-num-devices"
GPU_GROUP = "runai-gpu-group"
"""The label of a pod that names the GPU which it shares: one for each shared GPU of a node."""

MEMORY_LABEL = "nvidia.com/gpu.memory"
WITHOUT_LABEL = 100
"""The memory of a GPU in KAI's sums if its node has no label: parts are percent then."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", re.ASCII)
_MEBIBYTES = 1024 * 1024


class GpuPart(Value):
    """What a pod asks for of GPUs that it shares with other pods."""

    portion: float
    """The part of each GPU."""
    memory: int = 0
    """The MiB of each GPU, which count instead of `portion` unless 0."""
    devices: int = 1
    """The number of GPUs."""

    @property
    def gpus(self) -> int:
        """How many GPUs KAI counts, in thousandths: none if the pod asks for memory.

        KAI rounds the portion to hundredths (`getExtendedResourceGpus`).
        """
        return math.floor(self.portion * 100 + 0.5) * self.devices * 10

    def memory_of_each(self, of_gpu: int) -> int:
        """Return what it takes of each GPU with memory `of_gpu` (`GetResourceGpuMemory`)."""
        return self.memory or int(self.portion * of_gpu)

    def share_of_each(self, of_gpu: int) -> float:
        """Return what part of each GPU KAI counts once it is placed, in hundredths rounded up."""
        return math.ceil(self.memory / of_gpu * 100) / 100 if self.memory else self.portion


def read_part(annotations: JsonMap) -> GpuPart | None:
    """Return the part of GPUs that the annotations of a pod ask for, None if they ask for none."""
    memory = _integer(text_at(annotations, GPU_MEMORY))
    portion = _portion(text_at(annotations, GPU_FRACTION))
    if not (portion or memory > 0):
        return None
    devices = text_at(annotations, FRACTION_DEVICES)
    if _INTEGER.fullmatch(devices):
        return GpuPart(portion, max(0, memory), max(0, int(devices)))
    return GpuPart(portion) if portion else GpuPart(0.0, memory)


def groups_of(labels: JsonMap) -> tuple[str, ...]:
    """Return the shared GPUs that the labels of a pod name.

    KAI's binder gives a pod with a part of one GPU one label, and a pod with parts of several GPUs
    a label for each of them (`resource_reservation.go`).
    """
    keys = [key for key in labels if key.startswith(GPU_GROUP)]
    if not keys:
        return ()
    return tuple(dict.fromkeys(filter(None, (text_at(labels, key) for key in sorted(keys)))))


def memory_of_gpus(labels: Mapping[str, str]) -> int | None:
    """Return the memory of each GPU of a node in MiB; None if the node has no label that says it.

    KAI rounds it down to hundreds, and takes very large values for bytes.
    """
    text = labels.get(MEMORY_LABEL, "")
    if not _INTEGER.fullmatch(text):
        return None
    memory = int(text)
    if memory >= _MEBIBYTES:
        memory //= _MEBIBYTES
    return memory - memory % 100


def _integer(text: str) -> int:
    return int(text) if _INTEGER.fullmatch(text) else 0


def _portion(text: str) -> float:
    value = float(text) if _DECIMAL.fullmatch(text) else 0.0
    return value if 0 < value <= 1 else 0.0
