"""The command line of explanations: of one object, or of all that waits.

Exit codes: 0 no reason found, or nothing waits; 1 reasons; 2 the object was not found, not
everything could be read, or it waits and the reasons that are left were not examined.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import uvloop
from msgspec.structs import replace

from app.base import logs
from app.base.visible import visible, visible_json
from app.cluster.connect import reading_client
from app.commands.options import (
    UNUSABLE,
    Command,
    add_reading_options,
    columns,
    complain,
    show_answer,
    unreadable,
)
from app.commands.records import add_record_options, facts_in, write_record
from app.dry_run.budget import UnusableInput
from app.explain.answers.answer import Answer, explain
from app.explain.answers.waiting import rows, waiting_alone, workloads
from app.explain.known.index import Index
from app.explain.known.read import read_list
from app.explain.known.snapshot import BY_RESOURCE, OF_KIND, RESOURCES, Snapshot
from app.explain.reasons.reason import listed
from app.explain.shown.json import document
from app.explain.shown.names import meant
from app.explain.shown.rights import may_not_read, refusal
from app.explain.shown.text import text, unseen_words
from app.explain.shown.waiting_text import exit_code, list_document, list_text
from app.facts.named import Ref, read_key
from app.facts.unit_owners import WORKLOAD_KINDS
from app.kube.api import ClusterError, Reader, Selection
from app.kube.contexts import namespace_of
from app.stores.around import ASKED

# Which object a command line asks about, and what to say if it isn't there.


MOST_NEIGHBOURS = 500
"""So many objects of a namespace are looked through for a similar name: one page."""

_SHORT = {
    "PodCliqueSet": "pcs",
    "PodCliqueScalingGroup": "pcsg",
    "PodClique": "pclq",
    "PodGang": "pg",
    "Pod": "po",
    "LeaderWorkerSet": "lws",
    "StatefulSet": "sts",
    "Deployment": "deploy",
}
"""The short names of kubectl."""

KINDS: Mapping[str, str] = {
    name: kind
    for kind in ASKED
    for name in (kind.lower(), f"{kind.lower()}s", _SHORT.get(kind, ""))
    if name
}
"""The kinds, by the names that kubectl has for them."""

_FORMS = "give KIND/NAME, KIND NAME, or the name of a PodCliqueSet"


def one_word(words: Sequence[str]) -> str:
    """Return the words that name an object as KIND/NAME, or as a bare name.

    `podcliqueset llm` is `podcliqueset/llm`. Raise UnusableInput for more words.
    """
    if len(words) > 2 or (len(words) == 2 and "/" in words[0] + words[1]):
        raise UnusableInput(f"{' '.join(words)!r} names no single object: {_FORMS}")
    return "/".join(words)


def reference(text: str, namespace: str) -> Ref:
    """Return the object that `KIND/NAME` names; a bare name is that of a PodCliqueSet.

    Raise UnusableInput for another kind, or none.
    """
    kind, _, name = text.rpartition("/")
    full = KINDS.get(kind.partition(".")[0].lower()) if kind else "PodCliqueSet"
    kinds = listed(sorted(set(KINDS.values())), len(KINDS))
    if not name or (not kind and name.lower() in KINDS):
        raise UnusableInput(f"{text!r} has no name: {_FORMS}; KIND is one of {kinds}")
    if full is None:
        others = "name one of its Pods, or nothing, for all that waits"
        raise UnusableInput(f"{text!r} can't be explained: {others}. KIND is one of {kinds}")
    return Ref(full, namespace, name)


async def neighbours(client: Reader, ref: Ref) -> list[Ref]:
    """Return objects of the same kind.

    These are those of the same name in all namespaces, as far as they may be read, and those in the
    same namespace.
    """
    by_name = await _listed(client, ref.kind, None, f"metadata.name={ref.name}")
    return [*by_name, *await _listed(client, ref.kind, ref.namespace)]


async def _listed(
    client: Reader, kind: str, namespace: str | None, selector: str = ""
) -> list[Ref]:
    """Return one page of names, or nothing if it can't be read: a hint must not fail."""
    selection = Selection(OF_KIND[kind], namespace, fields=selector, metadata_only=True)
    try:
        page = await client.list(selection, limit=MOST_NEIGHBOURS)
    except ClusterError:
        return []
    return [Ref(kind, *read_key(obj)) for obj in page.items]


# Names that a shell completes.


_PATIENCE_SECONDS = 3.0
"""How long a shell waits for names."""


def complete_object(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return what may follow `prefix` as the object: kinds, then names, as argcomplete asks.

    Empty if the cluster doesn't answer in time: a shell shows no error.
    """
    kind, slash, _name = prefix.rpartition("/")
    if not slash:
        return [f"{name}/" for name in sorted(KINDS)]
    try:
        names = uvloop.run(asyncio.wait_for(_names(kind, parsed_args), _PATIENCE_SECONDS))
    except (ClusterError, OSError, TimeoutError, UnusableInput):
        return []
    return [f"{kind}/{name}" for name in names]


async def _names(kind: str, arguments: argparse.Namespace) -> list[str]:
    namespace = arguments.namespace or namespace_of(arguments.kubeconfig, arguments.context)
    async with reading_client(_READ, arguments.kubeconfig, arguments.context) as client:
        return await names_of(client, kind, namespace)


async def names_of(client: Reader, kind: str, namespace: str) -> list[str]:
    """Return the names of the objects of a kind, given by a name that kubectl has for it."""
    full = KINDS.get(kind.partition(".")[0].lower())
    return sorted(ref.name for ref in await _listed(client, full, namespace)) if full else []


# The command.


_READ = (*RESOURCES, *WORKLOAD_KINDS)
"""What is read, and the kinds of which only names are, to say what is not there."""

_ROOM_SECONDS = 30.0
_SECONDS = 5.0
"""How often --watch looks: seldom if the whole cluster is read for it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    named = parser.add_argument(
        "object",
        nargs="*",
        metavar="KIND/NAME",
        help="or KIND NAME, such as lws/vllm; of a PodCliqueSet, NAME will do; without it, lists"
        " what waits",
    )
    named.completer = complete_object  # type: ignore[attr-defined] # argcomplete looks for it
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="NAME", help="of the object (default: that of the kubeconfig)"
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="list what waits in all namespaces"
    )
    add_reading_options(parser)
    parser.add_argument(
        "--no-room",
        action="store_true",
        help="don't read all nodes and pods, and don't examine whether there is room",
    )
    parser.add_argument("--all", action="store_true", help="the whole tree or list, nothing folded")
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
        help="judge YAML or JSON files of any size, or a record, in place of a cluster",
    )
    add_record_options(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    name = one_word(arguments.object)
    if name and arguments.all_namespaces:
        raise UnusableInput("--all-namespaces lists what waits, and takes no name")
    if arguments.watch and not name:
        raise UnusableInput("--watch takes the name of an object")

    try:
        if arguments.offline:
            return _offline(name, arguments)
        namespace = arguments.namespace or namespace_of(arguments.kubeconfig, arguments.context)
        if not name:
            return uvloop.run(_list(namespace, arguments))
        return uvloop.run(_run(reference(name, namespace), arguments))
    except BrokenPipeError:
        raise  # the reader of our output has ended
    except (ClusterError, OSError) as problem:
        return unreadable("can't explain", problem, arguments)


def _require_files(names: Sequence[str]) -> None:
    """Raise UnusableInput if one is no file: it may be the object, which options can't follow."""
    for name in names:
        if name != "-" and not Path(name).exists():
            raise UnusableInput(
                f"{name}: there is no such file; if it is the name of an object, write it before"
                " --offline"
            )


def _offline(name: str, arguments: argparse.Namespace) -> int:
    if not name:
        _require_files(arguments.offline)
    facts = facts_in(arguments.offline)
    index = Index(facts)
    if not name:
        write_record(facts, arguments, Ref("", arguments.namespace or "", ""))
        return print_list(index, arguments.namespace or "", arguments)
    ref = reference(name, arguments.namespace or "")
    others = _refs(facts, ref.kind)
    if not others:
        of = "" if OF_KIND[ref.kind] in BY_RESOURCE else "pod of a "
        raise UnusableInput(f"there is no {of}{ref.kind} in these files")
    ref = ref if ref.namespace else replace(ref, namespace=_namespace_in(others, ref))
    write_record(facts, arguments, ref)
    answer = explain(index, ref)
    if not answer:
        return _not_found(index, ref, others)
    return _print(answer, arguments)


def _refs(facts: Snapshot, kind: str) -> list[Ref]:
    """Return the objects of a kind among facts."""
    row = BY_RESOURCE.get(OF_KIND[kind])
    if row is None:
        return sorted({ref for pod in facts.pods for ref in pod.made_for if ref.kind == kind})
    return [fact.ref for fact in getattr(facts, row.name)]


def _namespace_in(others: Sequence[Ref], ref: Ref) -> str:
    """Return the namespace of the object in files, `default` if it is in none or in several."""
    namespaces = {other.namespace for other in others if other.name == ref.name}
    return namespaces.pop() if len(namespaces) == 1 else "default"


def print_list(index: Index, namespace: str, arguments: argparse.Namespace) -> int:
    """Print what waits in a namespace, or in all for "". Return the exit code."""
    facts = index.facts
    within = [namespace] if namespace else []
    listed = rows(index, [*workloads(index, within), *waiting_alone(index, within)])
    width = columns(sys.stdout)
    show_answer(
        arguments.output,
        lambda: list_document(listed, facts),
        lambda: list_text(listed, facts, namespace, everything=arguments.all, width=width),
    )
    return exit_code(listed, facts)


async def _list(namespace: str, arguments: argparse.Namespace) -> int:
    within = "" if arguments.all_namespaces else namespace
    async with reading_client(_READ, arguments.kubeconfig, arguments.context) as client:
        facts = await read_list(client, within, room=not arguments.no_room, now=time.time())
    write_record(facts, arguments, Ref("", within, ""))
    return print_list(Index(facts), within, arguments)


async def _run(ref: Ref, arguments: argparse.Namespace) -> int:
    async with reading_client(_READ, arguments.kubeconfig, arguments.context) as client:
        index = Index(await _facts(client, ref, arguments))
        write_record(index.facts, arguments, ref)
        answer = explain(index, ref)
        if not answer:
            return _not_found(index, ref, await neighbours(client, ref))
        code = _print(answer, arguments)
        if arguments.watch:
            await watch(
                client, ref, arguments, every=_SECONDS if arguments.no_room else _ROOM_SECONDS
            )
        return code


async def _facts(client: Reader, ref: Ref, arguments: argparse.Namespace) -> Snapshot:
    room = not arguments.no_room
    return await read_list(client, ref.namespace, room=room, now=time.time(), asked=ref)


def _not_found(index: Index, ref: Ref, others: Sequence[Ref]) -> int:
    """Say that an object doesn't exist, or that it may not be read, and what helps."""
    unseen = index.facts.unseen
    words = f"; not seen: {unseen_words(dict(sorted(unseen.items())))}" if unseen else ""
    if ref in others:  # its pods tell of it, and there are none
        complain(
            f"{ref} exists in namespace {ref.namespace}, and has no pod yet. Its events say why:"
            f" kubectl describe {ref.kind.lower()} {ref.name} -n {ref.namespace}"
        )
        return UNUSABLE
    why = [f"{ref} not found in namespace {ref.namespace}{words}", *meant(ref, others)]
    for line in refusal(index, ref) if may_not_read(index, ref) else why:
        complain(line)
    return UNUSABLE


def _print(answer: Answer, arguments: argparse.Namespace) -> int:
    if arguments.output == "json":
        print(visible_json(document(answer), indented=True), flush=True)
        return answer.exit_code

    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = columns(sys.stdout)
    print(text(answer, everything=arguments.all, colour=colour, width=width), flush=True)
    return answer.exit_code


async def watch(
    client: Reader, ref: Ref, arguments: argparse.Namespace, *, every: float
) -> NoReturn:
    """Look again every so many seconds, and print a line if the answer is another than before."""
    before = ""
    while True:
        answer = explain(Index(await _facts(client, ref, arguments)), ref)
        line = summary(answer) if answer else f"{ref} is gone"
        if before and line != before:
            print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
        before = line
        await asyncio.sleep(every)


def summary(answer: Answer) -> str:
    """Return the answer in one line, without what changes by itself."""
    pods = (
        f"{answer.placed} of {answer.total} placed"
        if answer.total is not None
        else "not known whether placed"
    )
    ids = ", ".join(dict.fromkeys(reason.id for reason in answer.reasons))
    return visible(f"{answer.ref.name}: {answer.state}, {pods}" + (f": {ids}" if ids else ""))


COMMAND = Command(
    "Explains whether a workload is placed as asked, and why it waits: one tree from its"
    " PodCliqueSet to its pods, and every reason that applies, with what helps. Without a name, it"
    " lists what waits, in the order of KAI's line, with the first reason and who can act. Nothing"
    " is written. Exit code: 0 no reason found, or nothing waits; 1 reasons; 2 the object was not"
    " found, not everything could be read, or it waits and the reasons that are left were not"
    " examined.",
    add_options,
    run,
)
