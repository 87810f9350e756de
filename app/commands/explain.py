"""The command line of explanations.

Exit codes: 0 no reason found, 1 reasons, 2 the object was not found, not everything could be read,
or it waits and the reasons that are left were not examined.
"""

import argparse
import asyncio
import os
import sys
import time
from dataclasses import replace
from typing import Any, NoReturn

import uvloop

from app import logs
from app.cluster.connect import reading_client
from app.commands.files import documents_of
from app.commands.options import UNUSABLE, Command, add_reading_options, unreadable
from app.dry_run.budget import UnusableInput
from app.explain.answer import Answer, explain
from app.explain.facts import RESOURCES, Facts
from app.explain.facts.common import Ref
from app.explain.index import Index
from app.explain.json import document
from app.explain.read import facts_of, read_for
from app.explain.subject import KINDS
from app.explain.text import text, unseen_words
from app.explain.words import listed
from app.kube.api import ClusterError, Reader
from app.kube.kubeconfig import namespace_of
from app.visible import visible, visible_json

_ROOM_SECONDS = 30.0
_SECONDS = 5.0
"""How often --watch looks: seldom if the whole cluster is read for it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", metavar="KIND/NAME", help="of a PodCliqueSet, NAME will do")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="of the object (default: that of the kubeconfig)"
    )
    add_reading_options(parser)
    parser.add_argument(
        "--no-room",
        action="store_true",
        help="don't read all nodes and pods, and don't examine whether there is room",
    )
    parser.add_argument("--all", action="store_true", help="the whole tree, nothing folded")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--watch",
        action="store_true",
        help="then print a line whenever the answer changes, until Ctrl-C",
    )
    how.add_argument(
        "--offline",
        nargs="+",
        metavar="FILES",
        help="judge YAML or JSON files, in place of a cluster",
    )


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    try:
        if arguments.offline:
            documents = [document for _, document in documents_of(arguments.offline)]
            ref = reference(arguments.object, arguments.namespace or "")
            ref = ref if ref.namespace else replace(ref, namespace=_namespace_in(documents, ref))
            return _print(facts_of(documents, time.time()), ref, arguments)
        namespace = arguments.namespace or namespace_of(arguments.kubeconfig, arguments.context)
        return int(uvloop.run(_run(reference(arguments.object, namespace), arguments)))
    except BrokenPipeError:
        raise  # the reader of our output has ended
    except (ClusterError, OSError) as problem:
        return unreadable("can't explain", problem, arguments)


def reference(given: str, namespace: str) -> Ref:
    """`KIND/NAME` as an object; a bare name is that of a PodCliqueSet.

    UnusableInput for another kind, or none.
    """
    kind, _, name = given.rpartition("/")
    full = KINDS.get(kind.partition(".")[0].lower()) if kind else "PodCliqueSet"
    kinds = listed(sorted(set(KINDS.values())), 20)
    if not name:
        raise UnusableInput(
            f"{given!r} has no name: give KIND/NAME, or the name of a PodCliqueSet; KIND is one of"
            f" {kinds}"
        )
    if full is None:
        raise UnusableInput(f"{given!r} can't be explained: KIND is one of {kinds}")
    return Ref(full, namespace, name)


def _namespace_in(documents: list[dict[str, Any]], ref: Ref) -> str:
    """The namespace of the object in files, `default` if it is in none or in several."""
    named = [document.get("metadata") for document in documents if document.get("kind") == ref.kind]
    namespaces = {
        str(m.get("namespace")) for m in named if isinstance(m, dict) and m.get("name") == ref.name
    }
    return namespaces.pop() if len(namespaces) == 1 else "default"


async def _run(ref: Ref, arguments: argparse.Namespace) -> int:
    async with reading_client(RESOURCES, arguments.kubeconfig, arguments.context) as client:
        code = _print(await _facts(client, ref, arguments), ref, arguments)
        if arguments.watch:
            await watch(
                client, ref, arguments, every=_SECONDS if arguments.no_room else _ROOM_SECONDS
            )
        return code


async def _facts(client: Reader, ref: Ref, arguments: argparse.Namespace) -> Facts:
    return await read_for(client, ref, room=not arguments.no_room, now=time.time())


def _print(facts: Facts, ref: Ref, arguments: argparse.Namespace) -> int:
    answer = explain(Index(facts), ref)
    if answer is None:
        unseen = (
            f"; not seen: {unseen_words(dict(sorted(facts.unseen.items())))}"
            if facts.unseen
            else ""
        )
        print(visible(f"{ref} not found in namespace {ref.namespace}{unseen}"), file=sys.stderr)
        return UNUSABLE
    if arguments.output == "json":
        print(visible_json(document(answer), indented=True))
    else:
        print(
            text(
                answer,
                everything=arguments.all,
                colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
            )
        )
    sys.stdout.flush()
    return answer.exit_code


async def watch(
    client: Reader, ref: Ref, arguments: argparse.Namespace, *, every: float
) -> NoReturn:
    """Looks again every so many seconds, and prints a line if the answer is another than before."""
    before = ""
    while True:
        answer = explain(Index(await _facts(client, ref, arguments)), ref)
        line = summary(answer) if answer is not None else f"{ref} is gone"
        if before and line != before:
            print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
        before = line
        await asyncio.sleep(every)


def summary(answer: Answer) -> str:
    """The answer in one line, without what changes by itself."""
    pods = (
        f"{answer.placed} of {answer.total} placed"
        if answer.total is not None
        else "not known whether placed"
    )
    ids = ", ".join(dict.fromkeys(reason.id for reason in answer.reasons))
    return visible(f"{answer.ref.name}: {answer.state}, {pods}" + (f": {ids}" if ids else ""))


COMMAND = Command(
    "Explains whether a workload is placed as asked, and why it waits: one tree from its"
    " PodCliqueSet to its pods, and every reason that applies, with what helps. Nothing is written."
    " Exit code: 0 no reason found, 1 reasons, 2 the object was not found, not everything could be"
    " read, or it waits and the reasons that are left were not examined.",
    add_options,
    run,
)
