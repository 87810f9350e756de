"""An examination of an installation in which any value may be anything: it ends with checks."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml

from app.base.safe_text import visible_json
from app.config.read import read_configuration
from app.doctor.certificate import Handshake
from app.doctor.examination import Patient, examine
from app.doctor.report import document, exit_code, lines
from app.kube.api import Object
from tests.doctor import test_claims, test_definitions, test_dialects
from tests.doctor.answering import AnsweringClient
from tests.doctor.installation import CONFIGURATION, NOW, Installation, kai, with_authorizer
from tests.doctor.test_definitions import ACCEPTED, ESTABLISHED, TAKEN
from tests.fuzz.clusters import loaded, mutation_of, objects_in, read_cluster
from tests.fuzz.explain import check_text
from tests.fuzz.mutation import dump
from tests.fuzz.target import Target
from tests.fuzz.verdicts import run_coroutine

CONFIGURED = read_configuration(yaml.safe_dump(CONFIGURATION), "test")
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "grove-admission-0",
        "namespace": "grove-system",
        "labels": {"app": "grove-admission"},
    },
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}],
        "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    },
}


def run(data: bytes) -> None:
    cluster = read_cluster(data)
    client = loaded(AnsweringClient, objects_in(cluster))
    run_coroutine(_examine(client, cluster.get("version")))


async def _examine(client: AnsweringClient, version: Any) -> None:
    async def read(path: str) -> Any:
        return version if isinstance(version, dict) else {}

    checks = await examine(Patient(client, read, _shake, CONFIGURED, False, NOW))
    assert checks
    assert exit_code(checks) in (0, 1, 2)
    for line in lines(checks):
        check_text(line)
        assert "\n" not in line
    assert json.loads(visible_json(document(checks)))["checks"]


async def _shake(address: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    assert isinstance(address, str)
    assert isinstance(port, int)
    return Handshake("unreachable", "nobody is there")


@cache
def corpus() -> Sequence[bytes]:
    definitions = [
        test_definitions.crd("clustertopologies", TAKEN, group="grove.io"),
        test_definitions.crd("podgangs", ACCEPTED, ("Established", "False"), group="grove.io"),
        test_definitions.crd("podcliques", TAKEN, ESTABLISHED, group="grove.io"),
    ]
    more: list[Object] = [
        *({**DEFINITION, **definition} for definition in definitions),
        test_claims.claim("claim"),
        test_claims.device_class("other"),
        test_dialects.domain("stuck", "grove.io/computedomain"),
        POD,
    ]
    clusters: list[list[Object]] = []
    for change in (with_authorizer("somebody"), with_authorizer(settings=False), _slow):
        installation = Installation()
        change(installation)
        clusters.append([*installation.objects.values(), kai("uid")])
    clusters += [[*clusters[0], *more], [*clusters[1], *more, test_dialects.binding("False")]]
    return [dump({"version": Installation().version, "objects": list(o)}) for o in clusters]


def _slow(installation: Installation) -> None:
    """Not all replicas are ready."""
    installation.objects["Deployment"]["status"] = {"readyReplicas": 1}


DOCTOR = Target("doctor", run, corpus, mutation_of(corpus), most=64 * 1024)
