"""Every command in every form, of an API server: as text at three widths, as JSON, and its exit code.

At each width nothing is lost, and JSON says what the text says.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from app.commands import COMMANDS
from tests.commands.test_explain import FULL
from tests.commands.test_trial import logged
from tests.explain import fleet
from tests.explain.fleet import facts
from tests.integration.stage import staged
from tests.integration.system import command

pytestmark = pytest.mark.untraced

LEVELS = """
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: grove-topology}
spec: {levels: [{domain: zone, key: example.com/zoen}, {domain: host, key: kubernetes.io/hostname}]}
"""
MEMBERS = ("headline", "text", "remedy", "message", "problems", "commands")
"""The members of JSON whose texts people read too."""
MEMBERS_OF = {"explain": ("text", "who"), "topology --if": ("edits",)}
"""Likewise of forms in which text is less than JSON: a list has no remedies, and the effects of an
edit no reasons of gangs that are still pending.
"""
FORMS = {
    "explain": (["explain", "-A"], 1),
    "explain one": (["explain", "llm", "-n", fleet.NAMESPACE, "--all"], 1),
    "explain without room": (["explain", "llm", "-n", fleet.NAMESPACE, "--no-room"], 2),
    "explain what is placed": (["explain", "-n", "research"], 0),
    "topology": (["topology"], 1),
    "topology of a domain": (["topology", "rack=rack-b1"], 1),
    "topology --room": (["topology", "--room", "2x8", "--in", "rack"], 0),
    "topology --room, none": (["topology", "--room", "3x8", "--in", "rack"], 1),
    "topology --levels": (["topology", "--levels", "{levels}"], 1),
    "topology --if": (["topology", "--if", "drain rack=rack-b2", "--all"], 1),
    "queues": (["queues"], 0),
    "audit": (["audit"], 3),
    "doctor": (["doctor", "--all"], 1),
}
"""What is asked of the cluster, and the exit code by the README of the commands."""
OFFLINE = {
    "check": (["check", "manifests/examples"], 1),
    "trial": (["trial", "{logged}"], 1),
}
SCRIPTS = {
    "webhooks": ["webhooks"],
    "policies": ["policies"],
    "schema": ["schema", "audit"],
    "completion": ["completion", "bash"],
    "certs": ["certs", "make", "{certs}"],
}
"""What is printed for programs, or has no text that could be too wide."""
SERVERS = ("serve", "console", "mcp")
"""What runs until it is stopped."""


class Ended(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    printed: str


class Cluster:
    """A cluster in which a gang waits, and files for the commands that read some."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._options = ["--kubeconfig", str(kubeconfig), "--context", "admin"]
        self._files = {name: str(folder / name) for name in ("levels", "logged", "certs")}

    async def ask(self, name: str, *options: str) -> Ended:
        if name in FORMS:
            return await self.run(*FORMS[name][0], *self._options, *options)
        return await self.run(*OFFLINE[name][0], *options)

    async def run(self, *words: str) -> Ended:
        code, out, err = await command(*(word.format(**self._files) for word in words))
        assert err == ""
        return Ended(code, out)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    folder = tmp_path_factory.mktemp("forms")
    (folder / "levels").write_text(LEVELS)
    (folder / "logged").write_bytes(await logged("podgroup.mixed-case-name"))
    async with staged(folder, "design", [], kind) as (server, stage):
        await stage.show(facts(**FULL))
        yield Cluster(server.kubeconfig, folder)


async def test_every_command_is_here() -> None:
    asked = [words[0] for words, _ in (FORMS | OFFLINE).values()]
    assert {*asked, *SCRIPTS, *SERVERS} == set(COMMANDS)


@pytest.mark.parametrize("name", FORMS | OFFLINE)
async def test_text_keeps_to_the_width_and_loses_nothing(
    name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await cluster.ask(name)
    assert whole.code == (FORMS | OFFLINE)[name][1]
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        ended = await cluster.ask(name)
        assert [line for line in ended.printed.splitlines() if is_too_wide(line, width)] == []
        assert said(ended.printed) == said(whole.printed), width
        assert ended.code == whole.code


@pytest.mark.parametrize("name", FORMS | OFFLINE)
async def test_json_says_the_same(name: str, cluster: Cluster) -> None:
    shown = await cluster.ask(name)
    ended = await cluster.ask(name, "-o", "json")
    members = MEMBERS_OF.get(name, MEMBERS)
    texts = [text for document in documents(ended.printed) for text in texts_in(document, members)]
    there = without_ages(shown.printed)
    assert [text for text in texts if without_ages(text) not in there] == []
    assert ended.code == shown.code == (FORMS | OFFLINE)[name][1]
    assert texts or name == "explain what is placed"


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_programs_read_is_the_same_at_any_width(
    name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ended = await cluster.run(*SCRIPTS[name])
    monkeypatch.delenv("COLUMNS")
    if name == "certs":
        shown = await cluster.run("certs", "check", "{certs}")
        assert (ended.code, shown.code) == (0, 0)
    else:
        assert ended == await cluster.run(*SCRIPTS[name])
        assert ended.code == 0


def is_too_wide(line: str, width: int) -> bool:
    """Commands and single words may be wider, so that they can be copied."""
    is_whole = line.lstrip().startswith(("kubectl ", "grove-admission ")) or " " not in line.strip()
    return len(line) > width and not is_whole


def without_ages(text: str) -> str:
    """Return a text in one line, without how long ago something was."""
    return re.sub(r"\b\d+ ?(s|m|seconds?|minutes?)\b", "", " ".join(text.split()))


def said(text: str) -> list[str]:
    """The characters of a text, in no order: without ages, what draws it, and the title of the
    reasons, which stand below each row if there is no room beside it.
    """
    named = without_ages(text).replace("FIRST REASON", "")
    return sorted(named.translate(dict.fromkeys(map(ord, " │├└─"))))


def documents(printed: str) -> Iterator[Any]:
    """The document that a command printed, or, of the audit, one in each line."""
    if printed.startswith('{"') and "\n{" in printed:
        yield from map(json.loads, printed.splitlines())
    else:
        yield json.loads(printed)


def texts_in(document: Any, members: Sequence[str], name: str = "") -> Iterator[str]:
    """Yield the texts of some members at any depth of a document."""
    if isinstance(document, dict):
        for member, value in document.items():
            # the message of a refusal is made of its causes, each of which has a line
            if member != "message" or not document.get("causes"):
                yield from texts_in(value, members, member)
    elif isinstance(document, list):
        for value in document:
            yield from texts_in(value, members, name)
    elif isinstance(document, str) and name in members and document:
        yield document
