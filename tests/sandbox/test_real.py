"""A real API server that doesn't come up is said, with the last words of the process that ended."""

from pathlib import Path

import pytest

from app.sandbox.real import RealApiServer, find_binaries


def binaries(folder: Path, *names: str, script: str = "exec sleep 60") -> Path:
    for name in names:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return folder


def test_binaries_are_found_where_the_environment_says(tmp_path: Path) -> None:
    folder = binaries(tmp_path, "etcd", "kube-apiserver")
    found = find_binaries({"KUBEBUILDER_ASSETS": str(folder)})
    assert found == {"etcd": folder / "etcd", "kube-apiserver": folder / "kube-apiserver"}


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param([], "no etcd and no kube-apiserver in", id="nothing is there"),
        pytest.param(["etcd"], "no kube-apiserver in", id="one is missing"),
    ],
)
def test_missing_binaries_are_named(tmp_path: Path, there: list[str], told: str) -> None:
    with pytest.raises(FileNotFoundError, match=told):
        find_binaries({"KUBEBUILDER_ASSETS": str(binaries(tmp_path, *there))})


async def test_a_process_that_ends_at_once_is_said_and_the_other_is_stopped(tmp_path: Path) -> None:
    folder = binaries(tmp_path, "etcd")
    binaries(tmp_path, "kube-apiserver", script="echo 'bad flag' >&2; exit 3")
    server = RealApiServer(binaries=find_binaries({"KUBEBUILDER_ASSETS": str(folder)}), state_dir=tmp_path / "state")
    with pytest.raises(RuntimeError, match="kube-apiserver ended with code 3: bad flag"):
        await server.start()
    await server.stop()
    assert {process.returncode is not None for process in server._processes.values()} == {True}
