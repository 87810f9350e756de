"""Records with pseudonyms: the same examination, and none of the names."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.certificates.certificate import make_leaf
from app.cli import main
from app.config.schema import Configuration
from app.doctor.certificate import Shake
from app.doctor.record import unreachable
from app.facts.kinds import QUEUE_NAMES
from app.webhooks.policies import admission_policies, queue_policies
from tests import builders
from tests.doctor import (
    test_claims,
    test_mistakes,
    test_mistakes_around,
    test_queue_guard,
    test_rehearsal,
)
from tests.doctor.installation import (
    BEGIN,
    CA,
    END,
    Change,
    Installation,
    Object,
    configured,
    definition,
    encoded,
    shake,
    with_authorizer,
)
from tests.doctor.recording import record

MISTAKES = {**test_mistakes.MISTAKES, **test_mistakes_around.MISTAKES}
WORD = re.compile(r"[^\W_]+")


class Told(NamedTuple):
    """What is found in a record with names and in one with pseudonyms, under pseudonyms."""

    before: Any
    after: Any
    said: str


Examine = Callable[[bytes], Told]


@pytest.fixture
def examine(tmp_path: Path, capsys: Any) -> Examine:
    """Examines a record, which is `named` in the folder, and makes that with pseudonyms: `other`."""

    def examined(content: bytes) -> Told:
        named, other = tmp_path / "named", tmp_path / "other"
        named.write_bytes(content)
        asked = ("doctor", "--all", "--output", "json", "--offline")
        code = main([*asked, str(named), "--record", str(other), "--pseudonyms"])
        before = capsys.readouterr()
        assert main([*asked, str(other)]) == code
        after = capsys.readouterr()
        words = replaced(named.read_text(), other.read_text())
        return Told(under(words, before.out), under(words, after.out), before.err)

    return examined


def recorded(change: Change, shake: Shake = shake) -> bytes:
    """The record of an installation after a change."""
    installation = Installation()
    change(installation)
    return asyncio.run(
        record(installation.client(), installation.version, installation.configured(), shake)
    )


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_the_same_under_pseudonyms(mistake: str, examine: Examine) -> None:
    change, _ = MISTAKES[mistake]
    told = examine(recorded(change))
    assert told.after == told.before


MISTAKES_OF_NEIGHBOURS = (
    test_rehearsal.no_service,
    test_rehearsal.no_endpoint,
    test_rehearsal.own_pods,
    test_rehearsal.slow,
)


@pytest.mark.parametrize("change", MISTAKES_OF_NEIGHBOURS)
def test_webhooks_of_neighbours_keep_their_names(
    change: test_rehearsal.Mistake, examine: Examine, tmp_path: Path
) -> None:
    cluster = test_rehearsal.Rehearsed()
    change(cluster)
    version = {"major": "1", "minor": "36"}
    told = examine(asyncio.run(record(cluster.client(), version, Configuration(), cluster.shake)))
    assert told.after == told.before
    for name in ("kyverno-svc", "webhook.cert-manager.io", "kai-scheduler", "kueue-system"):
        assert name in (tmp_path / "other").read_text()


def replaced(text: str, other: str) -> dict[str, str]:
    """The words that other words stand for."""
    pairs = set(zip(WORD.findall(text), WORD.findall(other), strict=True))
    words = {word: pseudonym for word, pseudonym in pairs if word != pseudonym}
    assert len(words) == len({word for word, pseudonym in pairs if word != pseudonym})
    assert not any(word in words for word, same in pairs if word == same)
    return words


def under(words: dict[str, str], answer: str) -> Any:
    return json.loads(WORD.sub(lambda word: words.get(word[0], word[0]), answer))


HOST = "dgx07.rack9.zenith.example"
PLANTED = (
    *(
        "zenith",
        "borealis",
        "quokka",
        "hyperion",
        "dgx07",
        "rack9",
        "nightingale",
        "marmot",
        "adaline",
    ),
    *("wombats", "axolotls", "gnu", "pangolin", "xkcd2", "lemming", "tundra", "platypus"),
)
"""Words of names: of a company, workloads, labels, nodes, webhooks, users, queues and domains."""

STAYING = {
    *("grove-admission", "grove-system", "kube-system", "kai-scheduler", "grove-topology"),
    *("grove-operator", "system:serviceaccount:grove-system:grove-admission", "kai-binder"),
    *("topologyAwareScheduling", "authorizer", "kubernetes.io/hostname", "grove.io/podclique"),
    *("podcliquesets.grove.io", "compute-domain.nvidia.com", "authorizer.webhooks.grove.io"),
    *("Unschedulable", "PodCliqueSet", "v1alpha1", "10.0.0.1", "nvidia.com/gpu"),
}
"""What stays: what the checks look for, well-known domains, kinds, reasons, versions, addresses."""


def planted(installation: Installation) -> None:
    """A cluster of a company, with a mistake in each text that has names."""
    users = [
        "system:serviceaccount:grove-system:grove-admission",
        "system:serviceaccount:zenith-prod:gnu",
        "oidc:adaline@zenith.example",
    ]
    levels = [{"domain": "rack", "key": "zenith.example/tundra"}]
    configured("authorization", authorizedUsers=users)(installation)
    configured("clusterTopology", levels=levels)(installation)
    with_authorizer("oidc:pangolin")(installation)

    configuration = installation.configured()
    installation.served[QUEUE_NAMES] = "v1"
    crd = definition("platypuses", "Billed") | {"metadata": {"name": "platypuses.zenith.example"}}
    policies = [
        *admission_policies(configuration),
        *queue_policies(configuration, "warn", "zenith-kai"),
    ]
    installation.objects |= {f"planted {number}": obj for number, obj in enumerate(policies)}
    installation.objects |= {
        "clique": in_company(asking_clique()),
        "pod": waiting_pod(),
        "company's webhooks": company_webhooks(),
        "KAI": {**test_mistakes_around.KAI_BINDER, "subjects": SUBJECTS},
        "claim": in_company(test_claims.claim("borealis-claim")),
        "queue": test_queue_guard.queue("wombats"),
        "names": test_queue_guard.names("wombats", "axolotls"),
        "company's CRD": crd,
    }
    installation.objects["Deployment"]["status"] = {}
    installation.objects["Lease"]["spec"]["holderIdentity"] = "grove-admission-7d9f-xkcd2_1"
    installation.objects["EndpointSlice"]["endpoints"][0]["nodeName"] = HOST


SUBJECTS = [
    {"kind": "ServiceAccount", "name": "marmot", "namespace": "zenith-kai"},
    {"kind": "User", "name": "oidc:adaline@zenith.example"},
]


def in_company(obj: Object) -> Object:
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), "zenith.example/tenant": "Hyperion"}
    return {**obj, "metadata": {**metadata, "namespace": "zenith-prod", "labels": labels}}


def asking_clique() -> Object:
    labels = builders.labels("borealis", 0, "borealis-0", grove=True)
    clique = builders.pod_clique("borealis-0-quokka", labels)
    clique["spec"]["podSpec"]["nodeSelector"] = {"zenith.example/kind": "platypus"}
    clique["spec"]["podSpec"]["volumes"] = [{"name": "w", "hostPath": {"path": "/mnt/lemming"}}]
    return clique


def waiting_pod() -> Object:
    metadata = {"name": "grove-admission-7d9f-xkcd2", "namespace": "grove-system"}
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"no room:\n{HOST.upper()} is full of zenith-prod/borealis-0",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {"app": "grove-admission"}},
        "spec": {"nodeName": HOST},
        "status": {"conditions": [condition]},
    }


def company_webhooks() -> Object:
    url = "https://hooks.zenith.example:8443/nightingale"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "nightingale"},
        "webhooks": [{"name": "audit.zenith.example", "clientConfig": {"url": url}}],
    }


def test_names_are_in_no_part_of_a_record_with_pseudonyms(examine: Examine, tmp_path: Path) -> None:
    told = examine(recorded(planted))
    assert told.after == told.before
    named = (tmp_path / "named").read_text()
    assert [word for word in PLANTED if word not in named.lower()] == []
    assert [text for text in STAYING if text not in named] == []

    other = (tmp_path / "other").read_text()
    assert [word for word in PLANTED if word in other.lower()] == []
    assert [text for text in STAYING if text not in other] == []
    assert told.said.startswith("certificates are recorded as they are")


def test_the_namespace_and_the_service_of_the_installation_stay(
    examine: Examine, tmp_path: Path
) -> None:
    """The certificate is for them: under other names, it would not be that of the Service."""
    home = {"namespace": "marmot-home", "serviceName": "gnu"}
    name = "gnu.marmot-home.svc"
    leaf = make_leaf(CA, [name], BEGIN, END)

    def elsewhere(installation: Installation) -> None:
        configured("certificates", **home, secretName="ocelot")(installation)
        for webhook in installation.webhooks():
            webhook["clientConfig"]["service"] |= {"namespace": "marmot-home", "name": "gnu"}
        metadata = {"name": "ocelot", "namespace": "marmot-home"}
        installation.objects["Secret"] |= {
            "metadata": metadata,
            "data": {"tls.crt": encoded(leaf.cert_pem)},
        }

    told = examine(recorded(elsewhere))
    assert told.after == told.before
    other = (tmp_path / "other").read_text()
    assert "/namespaces/marmot-home/services/gnu" in other
    assert "ocelot" not in other
    verified = f"verifies tls.crt of the Secret as {name}"
    assert any(verified in check["message"] for check in told.after["checks"])


def test_a_record_is_not_written_if_something_else_would_be_found(
    tmp_path: Path, capsys: Any
) -> None:
    """The certificate is for the host of a URL, and nobody answers there."""
    host = "ocelot.example"
    leaf = make_leaf(CA, [host], BEGIN, END)

    def by_url(installation: Installation) -> None:
        installation.objects["Secret"]["data"] = {"tls.crt": encoded(leaf.cert_pem)}
        for webhook in installation.webhooks():
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://{host}{path}"

    named, other = tmp_path / "named", tmp_path / "other"
    named.write_bytes(recorded(by_url, unreachable))
    asked = ["doctor", "--offline", str(named), "--record", str(other), "--pseudonyms"]
    assert main(asked) == 2
    printed = capsys.readouterr()
    assert "nothing was recorded: with pseudonyms, something else would be found" in printed.err
    assert not other.exists()


def test_pseudonyms_are_about_a_record(capsys: Any) -> None:
    assert main(["doctor", "--pseudonyms"]) == 2
    assert "--pseudonyms is about the file of --record" in capsys.readouterr().err
