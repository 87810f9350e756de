"""The command `check`: print verdicts on files, without a cluster or with the objects of one."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter

import uvloop

from app.base.safe_text import visible
from app.base.unusable import UnusableInput
from app.cluster.cluster import Cluster
from app.cluster.filled import cluster_around, cluster_of
from app.commands.files import documents_of, objects_in
from app.commands.options import (
    LIKE_KUBECTL,
    REFUSED,
    UNUSABLE,
    Command,
    add_cluster,
    add_config,
    add_offline,
    add_output,
    complain,
    show_answer,
    unreadable,
)
from app.config.read import configuration_or_defaults
from app.config.schema import Configuration
from app.dry_run.judge import Asker, Judgement, describe, identify, judge, may_be_misspelt
from app.facts.kinds import ALL
from app.kube.api import ClusterError, Object
from app.webhooks.registry import routes_over

_MOST_ALIKE = 3
"""The maximum number of consecutive documents with the same output that have a line each."""


def add_options(parser: argparse.ArgumentParser) -> None:
    files = "YAML or JSON files, directories of them, or - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILES", help=files)
    add_config(parser, "file with an OperatorConfiguration")
    operations = ("CREATE", "UPDATE", "DELETE")
    parser.add_argument(
        "--operation",
        default="CREATE",
        choices=operations,
        help="operation to judge (default: CREATE)",
    )
    parser.add_argument(
        "--old",
        metavar="FILE",
        help="file with the documents that an UPDATE replaces or a DELETE deletes",
    )
    parser.add_argument(
        "--user",
        help="user who sends the request (default: the first of authorization.authorizedUsers)",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="read a cluster, so that documents can refer to its objects",
    )
    add_offline(
        parser, "read files with objects to which documents can refer, and which are not judged"
    )
    add_cluster(parser, LIKE_KUBECTL)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.cluster and arguments.offline:
        raise UnusableInput("use --cluster or --offline, not both")

    configuration = configuration_or_defaults(arguments.config)
    sourced = documents_of(arguments.files)
    names = [name for name, _ in sourced]
    objects = [document for _, document in sourced]
    asker = _asker(arguments, configuration)
    unread: list[str] = []
    if arguments.cluster:
        try:
            judged, unread = uvloop.run(
                _check_with_cluster(configuration, objects, asker, arguments)
            )
        except (ClusterError, OSError) as problem:
            return unreadable("can't read the cluster", problem, arguments)
    else:
        around = _offline(arguments.offline) if arguments.offline else []
        judged = asyncio.run(check(configuration, objects, asker, around))
    outcomes = Counter(judgement.outcome for judgement in judged)
    show_answer(
        arguments.output,
        lambda: _document(names, judged, outcomes),
        lambda: "\n".join(_lines(names, judged, outcomes)),
    )

    for each in unread:
        complain(f"not read from the cluster: {each}")
    if outcomes["failed"] or unread:
        return UNUSABLE
    return REFUSED if outcomes["refused"] else 0


def _asker(arguments: argparse.Namespace, configuration: Configuration) -> Asker:
    replaced = objects_in(arguments.old) if arguments.old else []
    user = arguments.user or next(iter(configuration.authorization.authorized_users), "check")
    return Asker(user, arguments.operation, tuple(replaced))


def _offline(files: Sequence[str]) -> list[Object]:
    # most of explain, which a check without --offline doesn't need
    from app.commands.records import documents_in

    return documents_in(files)


async def check(
    configuration: Configuration,
    objects: Sequence[Object],
    asker: Asker,
    around: Sequence[Object] = (),
) -> list[Judgement]:
    """Return the verdicts on `objects` without a cluster.

    The objects can refer to each other, and to the objects `around`, which are not judged.
    """
    cluster = cluster_of(configuration, [*around, *objects], is_whole=False)
    return await _judged(cluster, configuration, objects, asker)


async def _check_with_cluster(
    configuration: Configuration,
    objects: Sequence[Object],
    asker: Asker,
    arguments: argparse.Namespace,
) -> tuple[list[Judgement], list[str]]:
    """Return the verdicts on `objects`, which can refer to each other and to the cluster's objects.

    Also return the resources that verdicts need but that could not be read, each with the reason.
    """
    # these load aiohttp, which a check without a cluster doesn't need
    from app.cluster.command_clients import looking_client
    from app.kube.read_only import ReadOnlyClient

    async with looking_client(ALL, arguments.kubeconfig, arguments.context) as client:
        await client.discovery.refresh()
        looking = ReadOnlyClient(client)
        cluster, unread = await cluster_around(objects, looking, configuration)
        return await _judged(cluster, configuration, objects, asker), unread


async def _judged(
    cluster: Cluster, configuration: Configuration, objects: Sequence[Object], asker: Asker
) -> list[Judgement]:
    routes = routes_over(configuration, cluster)
    facts = cluster.for_templates
    return [await judge(routes, document, asker, facts) for document in objects]


def _document(
    names: Sequence[str], judged: Sequence[Judgement], outcomes: Mapping[str, int]
) -> Object:
    """Return all verdicts as JSON-serializable data, each with the name of its file."""
    reports = [
        {"file": name, **judgement.report()} for name, judgement in zip(names, judged, strict=True)
    ]
    is_allowed = not outcomes["refused"] + outcomes["failed"]
    return {"allowed": is_allowed, "results": reports}


def _lines(
    names: Sequence[str], judged: Sequence[Judgement], outcomes: Mapping[str, int]
) -> Iterator[str]:
    """Yield the verdicts by file, then the totals, as lines that are safe to print."""
    for name, of_file in groupby(zip(names, judged, strict=True), key=itemgetter(0)):
        yield visible(name)
        for _, alike in groupby(map(itemgetter(1), of_file), key=_alike):
            yield from (f"  {line}" for line in _described(list(alike)))

    judged_count = outcomes["allowed"] + outcomes["patched"] + outcomes["refused"]
    yield ""
    yield f"{judged_count} judged, {outcomes['refused']} refused, {outcomes['']} without a webhook"
    if outcomes["failed"]:
        yield (f"{outcomes['failed']} without a verdict: add the documents named above")
    elif not judged_count and any(may_be_misspelt(judgement.document) for judgement in judged):
        yield "nothing was judged: check apiVersion and kind"
    elif not judged_count:
        yield "nothing was judged"


def _alike(judgement: Judgement) -> object:
    """Return the key by which consecutive documents are grouped in the output.

    Documents that no webhook judges share a key if they have the same kind and operation. Every
    other document has its own key.
    """
    if judgement.verdict or judgement.note:
        return id(judgement)
    return identify(judgement.document)[:2], judgement.operation


def _described(judged: Sequence[Judgement]) -> Iterable[str]:
    if len(judged) <= _MOST_ALIKE:
        return chain.from_iterable(map(describe, judged))
    api_version, kind, *_ = identify(judged[0].document)
    return [visible(f"-        {len(judged)} of {api_version} {kind}: no webhook judges these")]


COMMAND = Command(
    description=(
        "Print the webhooks' verdicts on the documents in FILES. Nothing is stored. Documents can"
        " refer to each other. With --cluster, they can also refer to objects of the cluster. With"
        " --offline, they can also refer to objects in other files, which are not judged. Topology"
        " support counts as enabled unless --config says otherwise. Schemas are not checked. Exit"
        " code: 0 all allowed; 1 at least one rejected; 2 unusable input, missing facts, or objects"
        " that could not be read."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission check llm.yaml                    # without a cluster",
        "grove-admission check --cluster manifests/ -o json",
    ),
)
