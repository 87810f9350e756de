"""argv -> settings -> serve | check | audit | doctor | webhooks | sandbox | certs.

Exit codes: 0 done, 1 a refusal or a failure, 2 unusable input.
"""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop
import yaml

from app import __version__, logs, runtime
from app.audit.command import add_audit
from app.certs import add_certs
from app.config import ConfigurationError, configuration_or_defaults, load_configuration, with_overrides
from app.doctor.command import add_doctor
from app.kube.api import ClusterError
from app.listener import free_port
from app.objects.names import is_label
from app.options import add_cluster_options
from app.reconcilers.cluster_topology import CreationFailed
from app.tls.issue import split_bundle
from app.webhooks.configurations import ServiceTarget, Target, UrlTarget, webhook_configurations
from app.webhooks.dry_run import Asker, Judgement, UnusableInput, describe, read_documents

REFUSED, UNUSABLE = 1, 2
_SUFFIXES = (".yaml", ".yml", ".json")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (ConfigurationError, UnusableInput) as problem:
        print(problem, file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, `head` say; nothing may be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grove-admission", description="Admission webhooks for Grove, the KAI Scheduler and NVIDIA ComputeDomains."
    )
    parser.add_argument("--version", action="version", version=f"grove-admission {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_check(commands)
    add_audit(commands)
    add_doctor(commands)
    _add_webhooks(commands)
    _add_sandbox(commands)
    add_certs(commands)
    return parser


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="serve the admission webhooks over HTTPS until SIGTERM",
        description="Serves the admission webhooks, and reconciles where it leads, until SIGTERM. Needs --config for a "
        "cluster, or --objects for none. GROVE_ADMISSION_HOST, GROVE_ADMISSION_PORT and "
        "GROVE_ADMISSION_CERTIFICATES_MODE stand between the configuration and these options. "
        "Exit code: 0 after SIGTERM, 1 where it can't serve or the configuration is invalid, 2 for unusable input.",
    )
    add_cluster_options(serve)
    serve.add_argument("--host", help="address to listen on (default: server.host of the configuration)")
    serve.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (default: server.port)")
    serve.add_argument(
        "--certs",
        type=Path,
        default=Path("certs"),
        metavar="DIR",
        help="directory with tls.crt and tls.key; a development pair is made where there is none (default: certs)",
    )
    serve.add_argument(
        "--objects", type=Path, metavar="DIR", help="facts from the YAML and JSON files of DIR, in place of a cluster"
    )
    _add_log_level(serve)
    serve.set_defaults(run=_serve)


def _add_log_level(parser: argparse.ArgumentParser) -> None:
    levels = ("debug", "info", "warning", "error")
    parser.add_argument("--log-level", default="info", choices=levels, help="of all but verdicts (default: info)")


def _add_check(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="verdicts on files, offline",
        description="Verdicts on the documents of FILES, with no cluster. The documents are facts for each other. "
        "Topology support counts as enabled unless --config says otherwise. Schemas are not checked. "
        "Exit code: 0 all allowed, 1 a refusal, 2 unusable input, or facts missing for a verdict.",
    )
    check.add_argument("files", nargs="+", metavar="FILES", help="YAML or JSON files, directories of them, or -")
    check.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration")
    operations = ("CREATE", "UPDATE", "DELETE")
    check.add_argument("--operation", default="CREATE", choices=operations, help="what is asked for (default: CREATE)")
    check.add_argument("--old", metavar="FILE", help="the documents that an UPDATE replaces")
    check.add_argument("--user", help="who asks (default: the first of authorizedUsers)")
    check.add_argument("--groups", default="", help="the groups of the user, separated by commas")
    check.add_argument("--output", default="text", choices=("text", "json"), help="default: text")
    check.set_defaults(run=_check)


def _add_webhooks(commands: Any) -> None:
    webhooks = commands.add_parser(
        "webhooks",
        help="print the two webhook configurations",
        description="Prints the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of this version, "
        "for kubectl apply. For a Service they have no caBundle: self-managed certificates or cert-manager write it.",
    )
    where = webhooks.add_mutually_exclusive_group()
    text = "that API servers call (default: grove-system/grove-admission)"
    where.add_argument("--service", metavar="NAMESPACE/NAME", default="grove-system/grove-admission", help=text)
    where.add_argument("--url", help="https://host:port of the server, for one outside the cluster")
    webhooks.add_argument("--ca-file", type=Path, metavar="FILE", help="with --url: the CA of its certificate")
    webhooks.set_defaults(run=_webhooks)


def _add_sandbox(commands: Any) -> None:
    sandbox = commands.add_parser("sandbox", help="a local API server with the webhooks, until SIGTERM or Ctrl-C")
    sandbox.add_argument(
        "--state-dir", type=Path, required=True, metavar="DIR", help="kubeconfig and ready.json go here"
    )
    sandbox.add_argument("--port", type=_port, default=0, help="of the API server (default: a free one)")
    sandbox.add_argument("--webhook-port", type=_port, help="of the webhook server (default: a free one)")
    sandbox.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration")
    sandbox.add_argument("--crds", type=Path, metavar="DIR", help="CRDs in place of our minimal ones of the neighbours")
    sandbox.add_argument(
        "--real",
        action="store_true",
        help="etcd and kube-apiserver of KUBEBUILDER_ASSETS (default: /usr/local/kubebuilder/bin) for an API server",
    )
    _add_log_level(sandbox)
    sandbox.set_defaults(run=_sandbox)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port number")
    return int(text)


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.config is None and arguments.objects is None:
        raise UnusableInput("for a cluster, serve needs --config FILE; without a cluster, --objects DIR")
    flags = {"host": arguments.host, "port": arguments.port}
    try:
        configuration = with_overrides(configuration_or_defaults(arguments.config), os.environ, flags)
    except ConfigurationError as problem:
        print(problem, file=sys.stderr)
        return REFUSED
    objects = None
    if arguments.objects is not None:
        objects = tuple(document for _, document in _documents([str(arguments.objects)]))
    logs.set_up(arguments.log_level)
    settings = runtime.ServeSettings(configuration, arguments.certs, objects, arguments.kubeconfig, arguments.context)
    try:
        uvloop.run(runtime.serve(settings))
    except (OSError, ClusterError, CreationFailed) as problem:
        print(f"can't serve: {problem}", file=sys.stderr)
        return REFUSED
    return 0


def _check(arguments: argparse.Namespace) -> int:
    configuration = configuration_or_defaults(arguments.config)
    sourced = _documents(arguments.files)
    old = tuple(document for _, document in _documents([arguments.old])) if arguments.old else ()
    user = arguments.user or next(iter(configuration.authorization.authorized_users), "check")
    asker = Asker(user, tuple(filter(None, arguments.groups.split(","))), arguments.operation, old)
    judged = asyncio.run(runtime.check(configuration, [document for _, document in sourced], asker))
    outcomes = Counter(one.verdict.outcome if one.verdict else "" for one in judged)
    if arguments.output == "json":
        reports = [{"file": name, **one.report()} for (name, _), one in zip(sourced, judged, strict=True)]
        print(json.dumps({"allowed": not outcomes["refused"] + outcomes["failed"], "results": reports}, indent=2))
    else:
        _print_text([name for name, _ in sourced], judged, outcomes)
    sys.stdout.flush()
    return UNUSABLE if outcomes["failed"] else REFUSED if outcomes["refused"] else 0


def _sandbox(arguments: argparse.Namespace) -> int:
    try:
        from app.local import SandboxSettings, default_configuration, run_sandbox
    except ImportError as problem:
        raise UnusableInput(f"the sandbox needs more packages ({problem}): install grove-admission[sandbox]") from None
    flags = {"host": "127.0.0.1", "port": arguments.webhook_port or free_port()}
    configuration = load_configuration(arguments.config) if arguments.config else default_configuration()
    configuration = with_overrides(configuration, {}, flags)
    logs.set_up(arguments.log_level)
    settings = SandboxSettings(configuration, arguments.state_dir, arguments.port, arguments.crds, arguments.real)
    try:
        uvloop.run(run_sandbox(settings))
    except (OSError, RuntimeError, ClusterError, CreationFailed) as problem:
        print(f"can't run the sandbox: {problem}", file=sys.stderr)
        return REFUSED
    return 0


def _webhooks(arguments: argparse.Namespace) -> int:
    target: Target
    if arguments.url:
        target = UrlTarget(arguments.url, _ca_bundle(arguments.url, arguments.ca_file))
        own_namespace = "grove-system"
    else:
        if arguments.ca_file is not None:
            raise UnusableInput("--ca-file goes with --url; of a Service the caBundle is written by who makes its CA")
        own_namespace, _, name = arguments.service.partition("/")
        if not (is_label(own_namespace) and is_label(name)):
            raise UnusableInput(f"--service takes NAMESPACE/NAME, not {arguments.service!r}")
        target = ServiceTarget(own_namespace, name)
    configurations = webhook_configurations(target, own_namespace)
    print(yaml.safe_dump_all(configurations, sort_keys=False, explicit_start=True), end="")
    return 0


def _ca_bundle(url: str, ca_file: Path | None) -> bytes:
    parts = urlsplit(url)
    if ca_file is None or parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise UnusableInput("--url takes https://host:port, and needs --ca-file with it")
    bundle = _text(str(ca_file)).encode()
    try:
        split_bundle(bundle)
    except ValueError:
        raise UnusableInput(f"{ca_file}: not a PEM bundle of certificates") from None
    return bundle


def _print_text(names: list[str], judged: list[Judgement], outcomes: Mapping[str, int]) -> None:
    before = ""
    for name, one in zip(names, judged, strict=True):
        if name != before:
            print(name)
            before = name
        for line in describe(one):
            print(f"  {line}")
    given = outcomes["allowed"] + outcomes["patched"] + outcomes["refused"]
    print(f"\n{given} judged, {outcomes['refused']} refused, {outcomes['']} without a webhook")
    if outcomes["failed"]:
        print(
            f"{outcomes['failed']} without a verdict: put what they need (a ClusterTopology, a PodCliqueSet) among the "
            f"documents, or give --config"
        )
    elif not given:
        print("nothing was judged: see whether apiVersion and kind are right")


def _documents(names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """(file, document) of every document in the files, directories or standard input (-) called `names`."""
    found = []
    for name in names:
        for path in _files(name):
            try:
                found += [(path, document) for document in read_documents(_text(path))]
            except UnusableInput as problem:
                raise UnusableInput(f"{path}: {problem}") from None
    return found


def _files(name: str) -> list[str]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        return [name]
    files = sorted(str(one) for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
    if not files:
        raise UnusableInput(f"{name}: no {', '.join(_SUFFIXES)} file in this directory")
    return files


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise UnusableInput(f"can't be read: {problem}") from None
