"""The command line: what it prints and how it ends.

Tests `app/__main__.py`, `app/cli.py` and `app/commands/options.py`.
"""

import errno
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import __version__
from app.cli import main
from app.commands import COMMANDS
from app.commands.options import Parser

EXAMPLES = Path(__file__).parent.parent.parent / "manifests" / "examples"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", str(EXAMPLES)),
        ("explain", "three-levels", "--offline", str(EXAMPLES / "podcliqueset-three-levels.yaml")),
    ],
    ids=["check", "explain"],
)
def test_a_reader_that_went_away_gets_no_traceback(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "app", *arguments]
    with subprocess.Popen(
        command, cwd=EXAMPLES.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", str(EXAMPLES)],
        ["explain", "three-levels", "--offline", str(EXAMPLES / "podcliqueset-three-levels.yaml")],
        ["webhooks"],
        ["policies", "--mutating"],
        ["certs", "check", str(EXAMPLES)],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_an_output_that_can_not_be_written_is_said(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=EXAMPLES.parent.parent,
        )
    expected = "can't explain: [Errno 28]" if arguments[0] == "explain" else "the output:"
    assert (ended.returncode, ended.stderr) == (2, f"{expected} No space left on device\n")


def test_a_file_that_may_not_be_looked_at_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def refused(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", "hidden/file.yaml")

    monkeypatch.setattr(Path, "is_dir", refused)
    assert main(["check", "hidden/file.yaml"]) == 2
    assert capsys.readouterr().err == "hidden/file.yaml: Permission denied\n"


def test_a_terminal_without_utf_8_gets_codes_of_characters_that_it_does_not_have(
    tmp_path: Path,
) -> None:
    file = tmp_path / "thing.yaml"
    file.write_bytes("{kind: Thing, metadata: {name: \u00e9\u251c}}".encode())
    ended = subprocess.run(
        [sys.executable, "-m", "app", "check", str(file)],
        capture_output=True,
        check=False,
        cwd=EXAMPLES.parent.parent,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert ended.stderr == b""
    assert b"Thing \xe9\\u251c: no webhook" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "the kubeconfig HOME/.kube/config does not exist. Add --kubeconfig FILE"),
        (["topology", "--kubeconfig", "nowhere"], "the file nowhere does not exist"),
        (
            ["doctor", "--kubeconfig", "CONFIG", "--context", "c"],
            "the kubeconfig has no context c. Add --context NAME, one of: a, b",
        ),
        (
            ["audit", "--kubeconfig", "UNCHOSEN"],
            "the kubeconfig has no current context. Add --context NAME, one of: a, b",
        ),
    ],
)
def test_a_cluster_that_is_not_named_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("a", "b")]
    lists = {
        "contexts": contexts,
        "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:1"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump({"current-context": "a", **lists}))
    (tmp_path / "unchosen").write_text(yaml.safe_dump(lists))
    files = {"CONFIG": str(tmp_path / "config"), "UNCHOSEN": str(tmp_path / "unchosen")}
    words = [files.get(word, word) for word in arguments]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    ended = subprocess.run(
        [sys.executable, "-m", "app", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HOME": str(tmp_path)},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    said = ended.stderr.replace(str(tmp_path), "HOME")
    assert said.endswith(f": no credentials for the cluster: {message}\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_two_examples_that_it_accepts(
    name: str, capsys: Any
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    examples, _, rest = capsys.readouterr().out.partition("\n\n")
    title, *lines = examples.splitlines()
    assert (title, len(lines)) == ("examples:", 2)
    assert rest.startswith(f"usage: grove-admission {name} ")

    parser = Parser()
    command = importlib.import_module(f"app.commands.{name}").COMMAND
    command.add_options(parser)
    for line in lines:
        words = re.search(rf"grove-admission {name}([^|#>)]*)", line)
        assert words is not None
        parser.parse_args(shlex.split(words[1]))


@pytest.mark.parametrize(
    "arguments", [[], ["check"], ["serve", "--port", "x"], ["check", "f", "--operation", "PATCH"]]
)
def test_wrong_arguments_are_2(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: grove-admission" in capsys.readouterr().err


def test_the_version(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"grove-admission {__version__}\n"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_keeps_to_the_width(
    command: str, width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as ended:
        main([*filter(None, [command]), "--help"])
    examples, usage, rest = capsys.readouterr().out.partition("usage: ")
    called, _, described = rest.partition("\n\n")
    assert ended.value.code == 0
    assert [line for line in examples.splitlines() if len(line) > 80] == []
    assert f"{usage}{called}".startswith(f"usage: grove-admission {command}".rstrip())
    assert [line for line in described.splitlines() if len(line) > width] == []


@pytest.mark.parametrize("command", ["explain", "topology"])
def test_commands_that_read_no_configuration_load_no_schema_of_it(command: str) -> None:
    code = f"import sys, app.cli, app.commands.{command}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_examined_for_garbage_at_exit() -> None:
    """What is registered last is called first at exit, so that the program has frozen all by then."""
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); from app import cli; cli.main(['explain', '--help'])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240
    )
    assert ended.stdout.splitlines()[-1] == "True", ended.stderr


def test_errors_keep_to_the_width_and_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explain", "llm", "--offline", "no-such-file.yaml", "--all-namespaces"]
    assert main(asked) == 2
    whole = capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "40")
    assert main(asked) == 2
    ended = capsys.readouterr().err
    assert max(map(len, ended.splitlines())) <= 40 < len(whole)
    assert ended.split() == whole.split()
