"""Pods for which KAI asks for more room than they need, and pods for which it doesn't."""

import pytest

from app.rules.dialects.design.podgangs import are_counted_exactly

SMALL = (("cpu", 1000), ("nvidia.com/gpu", 1000), ("pods", 1000))
LARGE = (("cpu", 1000), ("nvidia.com/gpu", 8000), ("pods", 1000))
MORE_CPU = (("cpu", 4000), ("nvidia.com/gpu", 8000), ("pods", 1000))
NO_GPU = (("cpu", 1000), ("pods", 1000))
NO_GPU_MORE_CPU = (("cpu", 4000), ("pods", 1000))
NIC = (("nvidia.com/gpu", 8000), ("pods", 1000), ("rdma/hca", 1000))


@pytest.mark.parametrize(
    ("requests", "exact"),
    [
        pytest.param([], True, id="no pods"),
        pytest.param([LARGE, LARGE], True, id="equal pods"),
        pytest.param([LARGE, SMALL], False, id="GPUs differ"),
        pytest.param([LARGE, MORE_CPU], False, id="only CPUs differ"),
        pytest.param([NO_GPU, NO_GPU_MORE_CPU], False, id="CPUs differ, and none has GPUs"),
        pytest.param([NO_GPU, LARGE], True, id="some have GPUs, others have none: KAI adds up"),
        pytest.param([NIC, LARGE], True, id="some have another device: KAI adds up"),
        pytest.param([NO_GPU, LARGE, SMALL], False, id="those with GPUs may be placed alone"),
    ],
)
def test_counted_exactly(requests: list[tuple[tuple[str, int], ...]], exact: bool) -> None:
    assert are_counted_exactly(requests) is exact
