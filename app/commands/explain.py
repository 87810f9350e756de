"""The command `explain`: say why a workload is pending, or list the workloads."""

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import uvloop
from msgspec.structs import replace

from app.base import logs
from app.base.safe_text import visible, visible_json
from app.base.unusable import UnusableInput
from app.cluster.command_clients import reading_client
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
from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import (
    rows,
    waiting_alone,
    waiting_unlisted,
    waiting_without_pods,
    workloads,
)
from app.explain.output.json import document
from app.explain.output.names import meant
from app.explain.output.rights import lacks_right, refusal, unread_because
from app.explain.output.text import text, unseen_words
from app.explain.output.waiting_text import exit_code, list_document, list_text
from app.explain.reasons.evictions import eviction_of
from app.explain.reasons.reason import listed
from app.explain.state.index import Index
from app.explain.state.makers import is_made_by, named_workloads, without_pods
from app.explain.state.read import read_list
from app.explain.state.snapshot import BY_RESOURCE, OF_KIND, RESOURCES, Snapshot
from app.facts.identity import Ref, read_key
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.kube.api import ClusterError, NotFound, Reader, Selection
from app.kube.contexts import namespace_of
from app.stores.related_lists import ASKED

# The object that a command line names, and similar ones if it doesn't exist.


MOST_NEIGHBOURS = 500
"""The maximum number of objects of a namespace that are searched for similar names (one page)."""

_SHORT = {
    "PodCliqueSet": "pcs",
    "PodCliqueScalingGroup": "pcsg",
    "PodClique": "pclq",
    "PodGang": "pg",
    "Pod": "po",
    "LeaderWorkerSet": "lws",
    "StatefulSet": "sts",
    "Deployment": "deploy",
    "DynamoGraphDeployment": "dgd",
}
"""The short names of kinds, by kind, as in kubectl."""

KINDS: Mapping[str, str] = {
    name: kind
    for kind in ASKED
    for name in (kind.lower(), f"{kind.lower()}s", _SHORT.get(kind, ""))
    if name
}
"""Kinds by the names that users may write: singular, plural, and kubectl's short name."""

_FORMS = "give KIND/NAME, KIND NAME, or the name of a PodCliqueSet"


def one_word(words: Sequence[str]) -> str:
    """Return the object that `words` name, as KIND/NAME or as a name without a kind.

    `podcliqueset llm` becomes `podcliqueset/llm`. Without words, return "". Raise UnusableInput if
    they name more than one object.
    """
    if len(words) > 2 or (len(words) == 2 and "/" in words[0] + words[1]):
        raise UnusableInput(f"{' '.join(words)!r} does not name exactly one object: {_FORMS}")
    return "/".join(words)


def reference(text: str, namespace: str) -> Ref:
    """Return the object that `KIND/NAME` names. A name without a kind means a PodCliqueSet.

    Raise UnusableInput for an unknown kind, and for a kind without a name.
    """
    kind, _, name = text.rpartition("/")
    full = KINDS.get(kind.partition(".")[0].lower()) if kind else "PodCliqueSet"
    kinds = listed(sorted(set(KINDS.values())), len(KINDS))
    if not name or (not kind and name.lower() in KINDS):
        raise UnusableInput(f"{text!r} has no name: {_FORMS}; KIND is one of {kinds}")
    if full is None:
        others = "name one of its Pods, or omit the name to list all pending workloads"
        singular = kind.partition(".")[0].lower().removesuffix("s")
        if singular == "queue":
            others = "name a workload in the queue, or use grove-admission queues"
        raise UnusableInput(f"{text!r} can't be explained: {others}. KIND is one of {kinds}")
    return Ref(full, namespace, name)


async def neighbours(client: Reader, ref: Ref) -> list[Ref]:
    """Return objects of the kind of `ref` that the user may have meant.

    They are in the same namespace, or have the same name in any namespace if the user may list all.
    """
    by_name = await _listed(client, ref.kind, None, f"metadata.name={ref.name}")
    return [*by_name, *await _listed(client, ref.kind, ref.namespace)]


async def _listed(
    client: Reader, kind: str, namespace: str | None, selector: str = ""
) -> list[Ref]:
    """Return the objects of a kind in the first page of a list.

    Return [] if the list can't be read, because it is only used for hints. `namespace` is None for
    all namespaces, and `selector` is a field selector.
    """
    selection = Selection(OF_KIND[kind], namespace, fields=selector, metadata_only=True)
    try:
        page = await client.list(selection, limit=MOST_NEIGHBOURS)
    except ClusterError:
        return []
    return [Ref(kind, *read_key(obj)) for obj in page.items]


# Completion of names in a shell.


_PATIENCE_SECONDS = 3.0
"""The seconds after which the completion of names gives up."""


def complete_object(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return completions of `prefix` for argcomplete: kinds, or the names of a kind after a slash.

    Return [] if the names can't be read in time, because a shell shows no error.
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
    """Return the names of the objects of a kind in a namespace, in the first page of the list.

    `kind` is any key of KINDS, also with an API group. Return [] if the kind is not known, or if
    its objects can't be listed.
    """
    full = KINDS.get(kind.partition(".")[0].lower())
    return sorted(ref.name for ref in await _listed(client, full, namespace)) if full else []


# The command.


_READ = (*RESOURCES, *WORKLOAD_KINDS)
"""The resources that the command may read."""

_ROOM_SECONDS = 30.0
"""The seconds between two reads of the cluster with --watch. Each reads all nodes and pods."""
_SECONDS = 5.0
"""The seconds between two reads of the cluster with --watch and --no-room."""


def add_options(parser: argparse.ArgumentParser) -> None:
    named = parser.add_argument(
        "object",
        nargs="*",
        metavar="KIND/NAME",
        help="the workload, such as lws/vllm; a name without a kind means a PodCliqueSet (default:"
        " list pending workloads)",
    )
    named.completer = complete_object  # type: ignore[attr-defined] # argcomplete looks for it
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="namespace (default: the kubeconfig context's)",
    )
    where.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="list pending workloads in all namespaces",
    )
    add_reading_options(parser)
    parser.add_argument(
        "--no-room",
        action="store_true",
        help="skip the check for room, which reads all nodes and pods",
    )
    parser.add_argument(
        "--all", action="store_true", help="show everything: fold neither the tree nor the list"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--watch",
        action="store_true",
        help="keep running until Ctrl-C, and print a line when the state, the numbers of pods or"
        " the ids of the reasons change",
    )
    how.add_argument(
        "--offline",
        nargs="+",
        metavar="FILES",
        help="read YAML or JSON files, or a record, instead of a cluster",
    )
    add_record_options(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    name = one_word(arguments.object)
    if name and arguments.all_namespaces:
        raise UnusableInput("--all-namespaces lists pending workloads and takes no name")
    if arguments.watch and not name:
        raise UnusableInput("--watch needs the name of a workload")

    try:
        if arguments.offline:
            return _offline(name, arguments)
        namespace = arguments.namespace or namespace_of(arguments.kubeconfig, arguments.context)
        if not name:
            return uvloop.run(_list(namespace, arguments))
        return uvloop.run(_run(reference(name, namespace), arguments))
    except BrokenPipeError:
        raise  # the reader of our output, such as `head`, has exited
    except (ClusterError, OSError) as problem:
        return unreadable("can't explain", problem, arguments)


def _require_files(names: Sequence[str]) -> None:
    """Raise UnusableInput if a path does not exist.

    Such a word may be the name of an object, which must precede --offline.
    """
    for name in names:
        if name != "-" and not Path(name).exists():
            raise UnusableInput(
                f"{name}: there is no such file; the name of an object must precede --offline"
            )


def _offline(name: str, arguments: argparse.Namespace) -> int:
    """Explain the workload `name`, or list the workloads if it is "", from files.

    Return the exit code. Raise UnusableInput or OSError if a file is not usable, and UnusableInput
    if the kind in `name` is unknown or the files contain no object of this kind.
    """
    if not name:
        _require_files(arguments.offline)
    facts = facts_in(arguments.offline)
    index = Index(facts)
    if not name:
        write_record(facts, arguments, Ref("", arguments.namespace or "", ""))
        return print_list(index, arguments.namespace or "", arguments)
    ref = reference(name, arguments.namespace or "")
    others = _refs(index, ref.kind)
    ref = ref if ref.namespace else replace(ref, namespace=_namespace_in(others, ref))
    write_record(facts, arguments, ref)
    answer = explain(index, ref)
    if not answer and not others and not eviction_of(index, ref):
        of = "" if OF_KIND[ref.kind] in BY_RESOURCE else "pod of a "
        raise UnusableInput(f"there is no {of}{ref.kind} in these files")
    if not answer:
        return not_found(index, ref, others)
    return _print(answer, arguments)


def _refs(index: Index, kind: str) -> list[Ref]:
    """Return the objects of a kind in a snapshot.

    For a kind that snapshots do not contain, return the workloads that pods, warnings or Kueue's
    Workloads name.
    """
    facts = index.facts
    row = BY_RESOURCE.get(OF_KIND[kind])
    if row is None:
        named = {ref for pod in facts.pods for ref in pod.made_for} | set(named_workloads(index))
        return sorted(ref for ref in named if ref.kind == kind)
    return [fact.ref for fact in getattr(facts, row.name)]


def _namespace_in(others: Sequence[Ref], ref: Ref) -> str:
    """Return the namespace of the object in `others` that has the name of `ref`.

    Return `default` if there is no such object, or if there are some in several namespaces.
    """
    namespaces = {other.namespace for other in others if other.name == ref.name}
    return namespaces.pop() if len(namespaces) == 1 else "default"


def print_list(index: Index, namespace: str, arguments: argparse.Namespace) -> int:
    """Print the list of workloads in a namespace, or in all namespaces if it is "".

    In a text, workloads without findings are only counted, unless --all is given.
    Return the exit code.
    """
    facts = index.facts
    within = [namespace] if namespace else []
    refs = [*workloads(index, within), *waiting_alone(index, within)]
    listed = rows(index, [*refs, *waiting_without_pods(index, within)])
    others = waiting_unlisted(listed, facts, namespace)
    width = columns(sys.stdout)
    show_answer(
        arguments.output,
        lambda: list_document(listed, facts, others),
        lambda: list_text(
            listed, facts, namespace, others=others, everything=arguments.all, width=width
        ),
    )
    return exit_code(listed, facts, others)


async def _list(namespace: str, arguments: argparse.Namespace) -> int:
    """List the workloads of a namespace or of the whole cluster. Return the exit code."""
    within = "" if arguments.all_namespaces else namespace
    async with reading_client(_READ, arguments.kubeconfig, arguments.context) as client:
        facts = await read_list(client, within, room=not arguments.no_room, now=time.time())
        facts = await without_gone(client, facts)
    write_record(facts, arguments, Ref("", within, ""))
    return print_list(Index(facts), within, arguments)


_MOST_WITHOUT_PODS = 20
"""The maximum number of workloads without pods that are looked up, each with a request."""


async def without_gone(client: Reader, facts: Snapshot) -> Snapshot:
    """Return the facts without events about workloads that have no pods and no longer exist.

    At most _MOST_WITHOUT_PODS workloads are looked up. Events about other workloads, and about
    workloads that can't be read, are kept.
    """
    found = itertools.islice(without_pods(Index(facts)), _MOST_WITHOUT_PODS)
    gone = [ref for ref in found if await _is_missing(client, ref)]
    if not gone:
        return facts
    events = (e for e in facts.events if not any(is_made_by(e.about, ref) for ref in gone))
    return replace(facts, events=tuple(events))


async def _run(ref: Ref, arguments: argparse.Namespace) -> int:
    """Explain one workload of a cluster, and watch it if requested. Return the exit code."""
    async with reading_client(_READ, arguments.kubeconfig, arguments.context) as client:
        index = Index(await _facts(client, ref, arguments))
        write_record(index.facts, arguments, ref)
        answer = explain(index, ref)
        if not answer or await is_gone(client, index, answer):
            return not_found(index, ref, await neighbours(client, ref))
        code = _print(answer, arguments)
        if arguments.watch:
            await watch(
                client, ref, arguments, every=_SECONDS if arguments.no_room else _ROOM_SECONDS
            )
        return code


async def is_gone(client: Reader, index: Index, answer: Answer) -> bool:
    """Return whether the workload of an answer was deleted, and only events or Kueue still name it.

    API servers keep events of a deleted object, by default for an hour. Return False if it is not
    known whether the workload exists.
    """
    ref = answer.ref
    if answer.total or ref not in named_workloads(index):
        return False
    return await _is_missing(client, ref)


async def _is_missing(client: Reader, ref: Ref) -> bool:
    """Return whether an object does not exist. Return False if it is not known."""
    only = f"metadata.name={ref.name}"
    selection = Selection(OF_KIND[ref.kind], ref.namespace, fields=only, metadata_only=True)
    try:
        page = await client.list(selection)
    except NotFound:
        return True  # the cluster no longer serves the kind
    except ClusterError:
        return False
    return ref.key not in map(read_key, page.items)


async def _facts(client: Reader, ref: Ref, arguments: argparse.Namespace) -> Snapshot:
    room = not arguments.no_room
    return await read_list(client, ref.namespace, room=room, now=time.time(), asked=ref)


def not_found(index: Index, ref: Ref, others: Sequence[Ref]) -> int:
    """Print the reason why there is no answer about `ref`, and a remedy. Return the exit code.

    `others` are existing objects of its kind.
    """
    unseen = index.facts.unseen
    words = f"; not seen: {unseen_words(dict(sorted(unseen.items())))}" if unseen else ""
    cause = unread_because(index, ref)
    exists = ref in others  # as a workload that is known only by its pods
    if lacks_right(cause):
        why = list(refusal(index, ref, exists=exists))
    elif exists and cause:
        why = [f"{ref} exists in namespace {ref.namespace} but can't be explained{words}"]
    elif exists:
        why = [
            f"{ref} exists in namespace {ref.namespace} but has no pods yet. See its events:"
            f" kubectl describe {ref.kind.lower()} {ref.name} -n {ref.namespace}"
        ]
    else:
        why = [f"{ref} not found in namespace {ref.namespace}{words}", *meant(ref, others)]
        said = eviction_of(index, ref)
        if said:
            why.append(
                f"{said}. KAI deletes the pods that it evicts, and only a controller, such as that"
                " of a Job, creates them again"
            )
    for line in why:
        complain(line)
    return UNUSABLE


def _print(answer: Answer, arguments: argparse.Namespace) -> int:
    """Print an answer in the requested format. Return its exit code."""
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
    """Read the cluster every `every` seconds, and print `summary` whenever it has changed."""
    before = ""
    while True:
        answer = explain(Index(await _facts(client, ref, arguments)), ref)
        line = summary(answer) if answer else f"{ref} is gone"
        if before and line != before:
            print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
        before = line
        await asyncio.sleep(every)


def summary(answer: Answer) -> str:
    """Return one line with the state of an answer, its placed pods and the ids of its reasons.

    Texts of reasons are left out, because their ages and numbers change all the time. The line is
    safe to print on a terminal.
    """
    pods = (
        f"{answer.placed} of {answer.total} placed"
        if answer.total is not None
        else "not known whether placed"
    )
    ids = ", ".join(dict.fromkeys(reason.id for reason in answer.reasons))
    return visible(f"{answer.ref.name}: {answer.state}, {pods}" + (f": {ids}" if ids else ""))


COMMAND = Command(
    description=(
        "Say whether a workload is placed as requested, why it is pending, and how to fix it:"
        " every reason that applies, and a tree from the workload to its pods. Without a name,"
        " list workloads that are pending or have problems, pending ones in KAI's order, each with"
        " its first reason and who can act."
        " Nothing is written. Exit code: 0 nothing is pending and nothing is wrong, 1"
        " something is pending or wrong (with a name, also if there is only a note), 2 not found,"
        " not everything was readable, or the remaining reasons were not checked."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission explain llm -n team-a   # why PodCliqueSet llm is pending",
        "grove-admission explain -A              # all pending workloads",
    ),
)
