"""A real API server that doesn't come up: what is reported, and that nothing is left running."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from tests.apiserver.api import definition, widget

ROOT = Path(__file__).parents[2]


def binaries(folder: Path, *names: str, script: str = "exec sleep 60") -> Path:
    for name in names:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return folder


def test_binaries_are_found_where_the_environment_says(tmp_path: Path) -> None:
    folder = binaries(tmp_path, "etcd", "kube-apiserver")
    assert find_binaries({"KUBEBUILDER_ASSETS": str(folder)}) == {
        "etcd": folder / "etcd",
        "kube-apiserver": folder / "kube-apiserver",
    }


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
    server = RealApiServer(
        binaries=find_binaries({"KUBEBUILDER_ASSETS": str(folder)}), state_dir=tmp_path / "state"
    )
    with pytest.raises(RuntimeError, match="kube-apiserver ended with code 3: bad flag"):
        await server.start()
    await server.stop()
    assert {process.returncode is not None for process in server._processes.running.values()} == {
        True
    }


RECORDING = 'echo $$ > "$(dirname "$0")/$(basename "$0").pid"; exec sleep 600'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stopped_before_it_is_ready_it_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    binaries(tmp_path, "etcd", script=RECORDING)
    script = f'[ "$1" = --help ] && exit 0; {RECORDING}'
    environment = {
        **os.environ,
        "KUBEBUILDER_ASSETS": str(binaries(tmp_path, "kube-apiserver", script=script)),
    }
    command = [
        sys.executable,
        "-m",
        "scripts.apiserver",
        "--real",
        "--state-dir",
        str(tmp_path / "state"),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    started = await process.stderr.readline()
    # both start at once, and either may write its file first
    pid_files = [tmp_path / f"{name}.pid" for name in ("etcd", "kube-apiserver")]
    async with asyncio.timeout(240):
        while not all(file.exists() and file.read_text().strip() for file in pid_files):  # noqa: ASYNC110 - written by others
            await asyncio.sleep(0.05)
    process.send_signal(number)
    _, rest = await process.communicate()
    assert (
        started.decode()
        == f"sandbox: starting etcd and kube-apiserver, with logs in {tmp_path / 'state'}\n"
    )
    assert rest.decode() == "sandbox: stopped before it was ready\n"
    assert process.returncode == 0
    for file in pid_files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


TAKEN = {
    "type": "NamesAccepted",
    "status": "False",
    "reason": "ShortNamesConflict",
    "message": '"ct" is already in use',
}


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        pytest.param(
            [TAKEN], 'ShortNamesConflict: "ct" is already in use', id="its names are taken"
        ),
        pytest.param([], "nothing said why in 0.2 s", id="no controller answers"),
    ],
)
async def test_a_definition_that_is_never_established_is_named_with_the_reason(
    conditions: list[dict[str, str]], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crd = {"metadata": {"name": "a.example.com"}, "status": {"conditions": conditions}}
    server = RealApiServer(binaries={}, state_dir=tmp_path)
    monkeypatch.setattr("scripts.apiserver.real.START_SECONDS", 0.2)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=crd))
    server._client = httpx.AsyncClient(transport=transport, base_url="https://api")
    with pytest.raises(RuntimeError) as raised:
        await server._until_established("a.example.com")
    await server.stop()
    assert str(raised.value) == f"CRD a.example.com is not established: {told}"


async def test_what_readyz_lacks_is_reported_while_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(
        [
            httpx.Response(500, text="[+]ping ok\n[-]etcd failed: reason withheld\n"),
            httpx.Response(401),
        ]
    )
    reports: list[str] = []
    server = RealApiServer(binaries={}, state_dir=tmp_path, report=reports.append)
    monkeypatch.setattr("scripts.apiserver.real.REPORT_SECONDS", 0)
    transport = httpx.MockTransport(lambda request: next(answers, httpx.Response(200)))
    server._client = httpx.AsyncClient(transport=transport, base_url="https://api")
    await server._until_ready()
    await server.stop()
    assert reports == [
        "waiting for kube-apiserver: [-]etcd failed: reason withheld",
        "waiting for kube-apiserver: /readyz answers 401",
    ]


def test_free_ports_are_none_of_those_for_outgoing_connections() -> None:
    ports = [free_port() for _ in range(50)]
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            assert port < 32768


class LateApi:
    """A kube-apiserver that serves the kind of a CRD only after its status was read twice."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self._reads = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "PATCH":
            self.writes.append(path.rpartition("/")[2])
            return httpx.Response(200, json={})
        if path.endswith("/widgets.example.com"):
            self._reads += 1
            established = {"type": "Established", "status": str(self._is_served)}
            return httpx.Response(200, json={"status": {"conditions": [established]}})
        kinds = {"/apis/apiextensions.k8s.io/v1": "CustomResourceDefinition"}
        if self._is_served:
            kinds["/apis/example.com/v1"] = "Widget"
        if path not in kinds:
            return httpx.Response(404, json={"message": "not found"})
        kind = kinds[path]
        resource = {"kind": kind, "name": f"{kind.lower()}s", "namespaced": False}
        return httpx.Response(200, json={"resources": [resource]})

    @property
    def _is_served(self) -> bool:
        return self._reads > 1


async def test_an_object_is_written_once_the_crd_before_it_is_served(tmp_path: Path) -> None:
    server = RealApiServer(binaries={}, state_dir=tmp_path)
    api = LateApi()
    await server._client.aclose()
    server._client = httpx.AsyncClient(base_url=server.url, transport=httpx.MockTransport(api))
    await server.apply([definition(), widget("one")])
    assert api.writes == ["widgets.example.com", "one"]
    await server.stop()
