"""`grove-admission check`: verdicts on files, offline."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from app.base.visible import visible
from app.cluster.cluster import cluster_of
from app.commands.files import documents_of, objects_in
from app.commands.options import REFUSED, UNUSABLE, Command, add_config, add_output, show_answer
from app.config.read import configuration_or_defaults
from app.config.schema import Configuration
from app.dry_run.judge import Asker, Judgement, describe, is_known, judge
from app.kube.api import Object
from app.webhooks.registry import routes_over


def add_options(parser: argparse.ArgumentParser) -> None:
    files = "YAML or JSON files; directories of them; - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILES", help=files)
    add_config(parser, "an OperatorConfiguration")
    operations = ("CREATE", "UPDATE", "DELETE")
    parser.add_argument(
        "--operation",
        default="CREATE",
        choices=operations,
        help="what is asked for (default: CREATE)",
    )
    parser.add_argument("--old", metavar="FILE", help="the documents that an UPDATE replaces")
    parser.add_argument("--user", help="who asks (default: the first of authorizedUsers)")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    configuration = configuration_or_defaults(arguments.config)
    sourced = documents_of(arguments.files)
    names = [name for name, _ in sourced]
    objects = [document for _, document in sourced]
    judged = asyncio.run(check(configuration, objects, _asker(arguments, configuration)))
    outcomes = Counter(judgement.outcome for judgement in judged)
    show_answer(
        arguments.output,
        lambda: _document(names, judged, outcomes),
        lambda: "\n".join(_lines(names, judged, outcomes)),
    )

    if outcomes["failed"]:
        return UNUSABLE
    return REFUSED if outcomes["refused"] else 0


def _asker(arguments: argparse.Namespace, configuration: Configuration) -> Asker:
    replaced = objects_in(arguments.old) if arguments.old else []
    user = arguments.user or next(iter(configuration.authorization.authorized_users), "check")
    return Asker(user, arguments.operation, tuple(replaced))


async def check(
    configuration: Configuration, objects: Sequence[Object], asker: Asker
) -> list[Judgement]:
    """Verdicts on `objects` without a cluster.

    Each object is a fact for the verdicts on the others.
    """
    cluster = cluster_of(configuration, objects, is_whole=False)
    routes = routes_over(configuration, cluster)
    facts = cluster.for_templates
    return [await judge(routes, document, asker, facts) for document in objects]


def _document(
    names: Sequence[str], judged: Sequence[Judgement], outcomes: Mapping[str, int]
) -> Object:
    reports = [
        {"file": name, **judgement.report()} for name, judgement in zip(names, judged, strict=True)
    ]
    is_allowed = not outcomes["refused"] + outcomes["failed"]
    return {"allowed": is_allowed, "results": reports}


def _lines(
    names: Sequence[str], judged: Sequence[Judgement], outcomes: Mapping[str, int]
) -> Iterator[str]:
    before = ""
    for name, judgement in zip(names, judged, strict=True):
        if name != before:
            yield visible(name)
            before = name
        yield from (f"  {line}" for line in describe(judgement))

    judged_count = outcomes["allowed"] + outcomes["patched"] + outcomes["refused"]
    yield ""
    yield f"{judged_count} judged, {outcomes['refused']} refused, {outcomes['']} without a webhook"
    if outcomes["failed"]:
        yield (
            f"{outcomes['failed']} without a verdict: add the documents that they need, which are"
            " named above"
        )
    elif not judged_count and not all(is_known(judgement.document) for judgement in judged):
        yield "nothing was judged: see whether apiVersion and kind are right"


COMMAND = Command(
    "Verdicts on the documents of FILES, with no cluster. The documents are facts for each other."
    " Topology support counts as enabled unless --config says otherwise. Schemas are not checked."
    " Exit code: 0 all allowed, 1 a refusal, 2 unusable input, or facts missing for a verdict.",
    add_options,
    run,
)
