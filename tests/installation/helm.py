"""The part of helm's command line that the guide uses, on Helm's own Go code in a package.

It stands in for the program where that is not installed: `in_folder` writes a program `helm`.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from tests.charts import merged
from tests.installation.readme import ROOT

WATCHER = "watcher"
SECONDS = 60
NOT_IN_THE_PACKAGE = "--take-ownership"


def in_folder(folder: Path) -> bool:
    """Write a program `helm` into a folder. Return False without the package helm-python-sdk."""
    if importlib.util.find_spec("helm_python") is None:
        return False
    program = folder / "helm"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {__file__} "$@"\n')
    program.chmod(0o755)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="helm")
    parser.add_argument("action", choices=("install", "upgrade", "rollback", "uninstall"))
    parser.add_argument("name")
    parser.add_argument("more", nargs="?", help="the chart, or the revision of a rollback")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--timeout", default=f"{SECONDS}s")
    for flag in ("create-namespace", "wait", "rollback-on-failure", "reset-then-reuse-values"):
        parser.add_argument(f"--{flag}", action="store_true")
    act(parser.parse_args())


def act(arguments: argparse.Namespace) -> None:
    import helm_python

    name = arguments.name
    seconds = int(arguments.timeout.removesuffix("s"))
    wait = WATCHER if arguments.wait or arguments.rollback_on_failure else None
    kubeconfig = os.environ["KUBECONFIG"]
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=arguments.namespace) as config:
        before = config.get_values(name) if arguments.reset_then_reuse_values else {}
        values: dict[str, Any] = merged(
            before or {}, *map(helm_python.parse_set_string, arguments.set)
        )
        how: dict[str, Any] = {"timeout": seconds, "wait": wait, "namespace": arguments.namespace}
        how["rollback_on_failure"] = arguments.rollback_on_failure
        if arguments.action == "install":
            config.install(
                arguments.more, name, values, create_namespace=arguments.create_namespace, **how
            )
        elif arguments.action == "upgrade":
            config.upgrade(arguments.more, name, values, reset_values=True, **how)
        elif arguments.action == "rollback":
            config.rollback(name, version=int(arguments.more), timeout=seconds, wait=wait)
        else:
            config.uninstall(name, timeout=seconds, wait=wait)


if __name__ == "__main__":
    main()
