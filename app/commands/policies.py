"""`grove-admission policies`: prints the rules that an API server can evaluate itself."""

import argparse
from pathlib import Path

import yaml

from app.commands.options import Command, configured
from app.webhooks.policies import UNCOVERED, admission_policies


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="an OperatorConfiguration: the server's"
    )


def run(arguments: argparse.Namespace) -> int:
    objects = admission_policies(configured(arguments))
    print(printed(objects), end="")
    return 0


def printed(objects: list[dict[str, object]]) -> str:
    """Return YAML documents, after comments about what only the webhooks do."""
    lines = ["# Made by `grove-admission policies`. Only the webhooks do the following:"]
    lines += [f"# - {row.path}, {row.what}: {row.why}" for row in UNCOVERED]
    documents = yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True, width=100)
    return "\n".join([*lines, documents])


COMMAND = Command(
    "Prints ValidatingAdmissionPolicies and their bindings, for kubectl apply: those rules of the"
    " webhooks that an API server can evaluate itself, so that they hold while no server answers.",
    add_options,
    run,
)
