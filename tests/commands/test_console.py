"""The command `console`, alone and beside the sandbox with its fleet."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from app.cli import main
from app.commands.console import announcement
from app.kube.contexts import current_context
from scripts.fleet import dump
from tests.integration.system import eventually

ROOT = Path(__file__).parents[2]


def test_it_refuses_to_run_in_a_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert main(["console"]) == 1
    assert "doesn't run in a cluster" in capsys.readouterr().err


def test_it_says_why_it_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "can't open the console: no credentials" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--host", "--address", "--bind"])
def test_there_is_no_option_to_listen_elsewhere(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["console", option, "0.0.0.0"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_the_address_with_its_token_is_printed_on_a_terminal_only() -> None:
    url = "http://127.0.0.1:1/token/"
    file = Path("/tmp/x/open.html")
    assert announcement(url, file, terminal=True) == "console ready: http://127.0.0.1:1/token/"
    assert announcement(url, file, terminal=False) == "console ready: open /tmp/x/open.html"


def test_the_context_is_that_of_the_kubeconfig(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text("""
        apiVersion: v1
        kind: Config
        current-context: b
        users: [{name: u, user: {}}]
        clusters: [{name: c, cluster: {server: 'https://x'}}]
        contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: c, user: u}}]
    """)
    assert current_context(config) == "b"
    assert current_context(tmp_path / "none") == ""


@pytest.mark.slow
async def test_the_sandbox_has_a_fleet_and_a_console_and_logs_nothing_like_an_error(
    tmp_path: Path,
) -> None:
    objects = tmp_path / "fleet.json"
    objects.write_text(dump())
    options = [
        "--state-dir",
        str(tmp_path),
        "--objects",
        str(objects),
        "--console",
        "--log-format",
        "text",
    ]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scripts.apiserver", *options),
        stdout=pipe,
        stderr=pipe,
        cwd=ROOT,
        env={**os.environ},
    )
    assert process.stdout is not None
    try:
        lines = []
        async with asyncio.timeout(240):
            async for line in process.stdout:
                lines.append(line.decode())
                if lines[-1].startswith("console ready"):
                    break
        file = Path(lines[-1].removeprefix("console ready: open ").strip())
        match = re.search(r'url=([^"]+)"', await asyncio.to_thread(file.read_text))
        assert match is not None
        async with httpx.AsyncClient(base_url=match[1]) as client:

            async def text_of_page() -> str:
                return (await client.get("workloads")).text

            text = await eventually(
                text_of_page, lambda page: "llm-serve is pending: 0 of 5 pods placed" in page
            )
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert process.returncode == 0
    assert not await asyncio.to_thread(file.exists)
    assert "chat-70b" in text
    logged = "".join(lines) + out.decode() + err.decode()
    assert "sandbox ready" in logged
    # written if the nodes are known before the topology, of which one lacks a label on purpose
    others = re.sub(r".*only 63 of 64 nodes have the label.*", "", logged)
    assert not re.search(r"error|warning|fail|refused|exception|traceback", others, re.IGNORECASE)
    assert re.search(
        r"^\d\d:\d\d:\d\d  allowed  CREATE podcliqueset inference/llm-serve by admin$",
        logged,
        re.MULTILINE,
    )


@pytest.mark.slow
async def test_the_sandbox_says_which_object_it_cannot_create(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(
        "{apiVersion: example.com/v1, kind: Nope, metadata: {name: n}}"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scripts.apiserver", "--state-dir", str(tmp_path / "state")),
        *("--objects", str(tmp_path / "objects.yaml"), "--log-level", "error"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    _, err = await process.communicate()
    told = "--objects: Nope n is not created: the server could not find the requested resource\n"
    assert (process.returncode, err.decode()) == (2, told)
