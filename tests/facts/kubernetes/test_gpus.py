"""Which resources are GPUs."""

from app.facts.kubernetes.gpus import is_gpu


def test_gpu_resources() -> None:
    assert [
        is_gpu(name)
        for name in ("nvidia.com/gpu", "nvidia.com/mig-2g.10gb", "nvidia.com/gpu.shared")
    ] == [
        True,
        True,
        False,
    ]
