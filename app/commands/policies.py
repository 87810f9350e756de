"""The command `policies`: print the webhooks' rules as admission policies."""

import argparse
from pathlib import Path

import yaml

from app.base.unusable import UnusableInput
from app.commands.options import Command, add_config, configured
from app.config.schema import Configuration
from app.facts.labels import KAI_SCHEDULER
from app.kube.api import Object
from app.webhooks.policies import (
    UNCOVERED,
    admission_policies,
    marking_policies,
    queue_policies,
)

Objects = list[Object]

PLUGINS = {
    "validating": "ValidatingAdmissionPolicy",
    "mutating": "MutatingAdmissionPolicy",
}
"""The admission plugin that reads a folder of static manifests, by the name of the folder."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--static", type=Path, metavar="DIR", help="write static manifests for API servers to DIR"
    )
    what.add_argument(
        "--mutating",
        action="store_true",
        help="print the MutatingAdmissionPolicy (Kubernetes 1.36) for Pods of Workloads",
    )
    what.add_argument(
        "--queues",
        choices=("refuse", "warn"),
        help="print policies that reject (refuse) or warn about writes that name a queue which the"
        " user may not use, and warn about queues that don't exist",
    )
    parser.add_argument(
        "--kai-namespace",
        metavar="NAMESPACE",
        action="append",
        help="with --queues: namespace of KAI, or of the component that assigns its queues, such as"
        " KAI Resource Management; repeat the option for more (default: kai-scheduler)",
    )


def run(arguments: argparse.Namespace) -> int:
    configuration = configured(arguments)
    if arguments.static is not None:
        _write_static(arguments.static, configuration)
    elif arguments.mutating:
        print(documents(marking_policies(configuration)), end="")
    elif arguments.queues:
        namespaces = arguments.kai_namespace or [KAI_SCHEDULER]
        objects = queue_policies(configuration, arguments.queues, *namespaces)
        print(documents(objects), end="")
    else:
        print(uncovered() + documents(admission_policies(configuration)), end="")
    return 0


def uncovered() -> str:
    """Return YAML comments that list what the webhooks do but no policy can do."""
    lines = ["# Made by `grove-admission policies`. Only the webhooks do the following:"]
    lines += [f"# - {row.path}, {row.what}: {row.why}" for row in UNCOVERED]
    return "\n".join([*lines, ""])


class _Dumper(yaml.SafeDumper):
    """A dumper that writes multi-line expressions as blocks, and no aliases."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(str, _Dumper.represent_str)


def documents(objects: Objects, width: int = 100) -> str:
    """Return objects as YAML documents, with lines of about `width` characters.

    The first document has no line of dashes before it, because kube-apiserver would take comments
    above such a line for a separate document.
    """
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=width)


def _write_static(folder: Path, configuration: Configuration) -> None:
    """Write a folder for each admission plugin, and an AdmissionConfiguration with these folders.

    The folder `mutating` is left out if there is no mutating policy. Raise UnusableInput if a file
    can't be written.
    """
    contents = {
        "validating": uncovered() + documents(admission_policies(configuration, is_static=True))
    }
    marking = marking_policies(configuration, is_static=True)
    if marking:
        contents["mutating"] = documents(marking)

    try:
        for name, content in contents.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "grove-admission.yaml").write_text(content)
        (folder / "admission-configuration.yaml").write_text(
            documents([_plugins(folder.absolute(), list(contents))])
        )
    except OSError as problem:
        raise UnusableInput(f"{folder}: {problem.strerror}") from None

    print(f"written to {folder}; kube-apiserver reads it with", end=" ")
    print(f"--admission-control-config-file={folder.absolute()}/admission-configuration.yaml")


def _plugins(folder: Path, names: list[str]) -> Object:
    """Return the AdmissionConfiguration of an API server that reads `folder`."""
    version = "apiserver.config.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": "AdmissionConfiguration",
        "plugins": [
            {
                "name": PLUGINS[name],
                "configuration": {
                    "apiVersion": version,
                    "kind": f"{PLUGINS[name]}Configuration",
                    "staticManifestsDir": str(folder / name),
                },
            }
            for name in names
        ],
    }


COMMAND = Command(
    description=(
        "Print ValidatingAdmissionPolicies and their bindings for kubectl apply. They contain the"
        " rules of the webhooks that API servers can evaluate themselves, so these rules also hold"
        " while no webhook answers."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission policies | kubectl apply -f -",
        "grove-admission policies --queues warn   # who may use which queue",
    ),
)
