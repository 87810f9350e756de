"""Audit logs: events become writes, and writes become a report."""

import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.admission.review import Request
from app.cli import main
from app.dry_run.audit_log import (
    COLLECTION,
    CONFLICT,
    DECISION,
    DRY_RUN,
    NO_NODE,
    NO_OBJECT,
    NO_OLD_OBJECT,
    NO_RESPONSE,
    NOT_ANSWERED,
    REJECTED_THEN,
    TRUNCATED,
    History,
    changing_webhooks,
)
from app.dry_run.audit_report import MISSING_FACTS

GROUP = ("scheduling.run.ai", "podgroups", "")
TARGETS = {GROUP: ("CREATE", "UPDATE"), ("", "pods", "binding"): ("CREATE",)}
TOPOLOGY = """\
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: grove-topology}
spec: {levels: [{domain: rack, key: example.com/rack}, {domain: host, key: kubernetes.io/hostname}]}
"""


def pod_group(*names: str, name: str = "a") -> dict[str, Any]:
    spec = {
        "minMember": 1,
        "queue": "q",
        "subGroups": [{"name": subgroup, "minMember": 1} for subgroup in names],
    }
    metadata = {"name": name, "namespace": "team"}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
    }


def event(
    verb: str = "create", obj: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    ref = {
        "resource": "podgroups",
        "namespace": "team",
        "name": "a",
        "apiGroup": GROUP[0],
        "apiVersion": "v2alpha2",
    }
    made: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "auditID": "1",
        "stage": "ResponseComplete",
        "requestURI": "/apis/scheduling.run.ai/v2alpha2/namespaces/team/podgroups",
        "verb": verb,
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "objectRef": ref,
        "responseStatus": {"code": 201 if verb == "create" else 200},
        "requestReceivedTimestamp": "2026-11-21T10:00:00.000000Z",
    }
    made |= {"requestObject": obj} if obj is not None else {}
    return {**made, **changes}


GOOD = pod_group("workers")
BAD = pod_group("Workers")
STATUS = {"kind": "Status", "metadata": {}, "status": "Success"}
ENDED = {**GOOD, "metadata": {**GOOD["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}}
ENDING = {**ENDED, "metadata": {**ENDED["metadata"], "finalizers": ["example.com/hold"]}}
DENIED = 'admission webhook "podgroup.example.com" denied the request: the name is too long'
REAL = Path(__file__).parents[1] / "testdata" / "audit"


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        ([event(obj=GOOD)], [""]),
        ([event(obj=GOOD), event("update", BAD)], ["", ""]),
        ([event("update", GOOD), event("update", BAD)], [NO_OLD_OBJECT, ""]),
        ([event(obj=GOOD), event("patch", {"spec": {}})], ["", NO_RESPONSE]),
        ([event(obj=GOOD), event("patch", {"spec": {}}, responseObject=BAD)], ["", ""]),
        ([event(obj=GOOD), event("patch")], ["", NO_OBJECT]),
        ([event("patch", {"spec": {}}, responseObject=GOOD)], [NO_OLD_OBJECT]),
        ([event("patch", {"spec": {}}, responseObject=GOOD, responseStatus={"code": 201})], [""]),
        (
            [event(obj=GOOD), event("delete", responseObject=STATUS), event("update", GOOD)],
            ["", "", NO_OLD_OBJECT],
        ),
        (
            # the object stays until its finalizer is removed, which no webhook is asked about
            [
                event(obj=GOOD),
                event("delete", responseObject=ENDING),
                event("patch", {}, responseObject=ENDED),
                event("update", GOOD),
            ],
            ["", "", "", NO_OLD_OBJECT],
        ),
        ([event("patch", {}, responseObject=ENDED)], [""]),
        ([event()], [NO_OBJECT]),
        ([event(annotations={"audit.k8s.io/truncated": "true"})], [TRUNCATED]),
        ([event(obj=GOOD, responseStatus={"code": 403})], [REJECTED_THEN]),
        ([event(obj=GOOD, responseStatus={"code": 422})], [REJECTED_THEN]),
        (
            [event(obj=GOOD, responseStatus={"code": 403, "message": DENIED})],
            [f"{REJECTED_THEN}, by podgroup.example.com"],
        ),
        (
            [event(obj=GOOD, responseStatus={"code": 403}, annotations={DECISION: "forbid"})],
            [NOT_ANSWERED],
        ),
        ([event(obj=GOOD, responseStatus={"code": 409})], [CONFLICT]),
        ([event(obj=GOOD, responseStatus={"code": 504})], [NOT_ANSWERED]),
        ([event(obj=GOOD, responseStatus={"code": 429})], [NOT_ANSWERED]),
        ([event(obj=GOOD, requestURI="/apis/x?fieldManager=k&dryRun=All")], [DRY_RUN]),
        ([event("deletecollection")], [COLLECTION]),
        ([event("get")], []),
        ([event(obj=GOOD, stage="RequestReceived")], []),
        (
            [event(obj=GOOD, objectRef={"resource": "secrets", "namespace": "team", "name": "a"})],
            [],
        ),
        ([event(obj=GOOD, objectRef={**event()["objectRef"], "namespace": "kube-system"})], []),
        ([{"kind": "Event", "objectRef": [], "user": 3}], []),
    ],
)
def test_what_can_be_judged_and_why_not(
    events: Sequence[dict[str, Any]], problems: list[str]
) -> None:
    history = History(TARGETS, ("kube-system",))
    writes = [write for item in events if (write := history.write_of(item)) is not None]
    assert [write.problem for write in writes] == problems


def test_a_request_is_what_the_api_server_has_sent() -> None:
    history = History(TARGETS, ())
    history.write_of(event(obj=GOOD, responseObject={**GOOD, "status": {}}))
    impersonated = event("update", BAD, impersonatedUser={"username": "robot", "groups": ["bots"]})
    write = history.write_of(impersonated)
    assert write is not None
    assert write.request == Request(
        uid="",
        group="scheduling.run.ai",
        kind="PodGroup",
        resource="podgroups",
        subresource="",
        operation="UPDATE",
        name="a",
        namespace="team",
        username="robot",
        object=BAD,
        old={**GOOD, "status": {}},
        dry_run=True,
    )
    assert (write.user, write.time) == ("robot", "2026-11-21T10:00:00.000000Z")


def test_a_patch_that_creates_its_object_is_a_creation() -> None:
    write = History(TARGETS, ()).write_of(
        event("patch", {}, responseObject=BAD, responseStatus={"code": 201})
    )
    assert write is not None
    assert write.request is not None
    request = write.request
    assert (request.operation, request.object, request.old) == ("CREATE", BAD, None)
    assert (write.kind, write.stored) == ("PodGroup", BAD)


def test_a_binding_is_not_taken_for_the_pod_that_it_binds() -> None:
    ref = {"resource": "pods", "namespace": "team", "name": "a"}
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "team"}}
    history = History({("", "pods", ""): ["UPDATE"], ("", "pods", "binding"): ["CREATE"]}, ())
    events = (
        event(obj=pod, objectRef=ref),
        event(obj={**pod, "kind": "Binding"}, objectRef={**ref, "subresource": "binding"}),
        event("update", pod, objectRef=ref),
    )
    writes = [history.write_of(each) for each in events]
    stored = [write and write.stored for write in writes]
    before = [write and write.request and write.request.old for write in writes]
    assert (stored, before) == ([pod, None, pod], [None, None, pod])


def test_an_object_that_was_sent_without_its_namespace_is_stored_in_that_of_the_request() -> None:
    write = History(TARGETS, ()).write_of(event(obj={**GOOD, "metadata": {"name": "a"}}))
    assert write is not None
    assert write.stored == GOOD


def pcs_event(domain: str, user: str, code: int = 201) -> dict[str, Any]:
    template = {
        "topologyConstraint": {"packDomain": domain},
        "cliques": [{"name": "w", "spec": {"replicas": 1}}],
    }
    metadata = {"generateName": "llm-", "namespace": "team"}
    obj = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata}
    obj |= {"spec": {"replicas": 1, "template": template}}
    ref = {
        "resource": "podcliquesets",
        "namespace": "team",
        "apiGroup": "grove.io",
        "apiVersion": "v1alpha1",
    }
    response = {**obj, "metadata": {**metadata, "name": "llm-x"}}
    status = {"code": code}
    return event(
        obj=obj,
        objectRef=ref,
        responseObject=response,
        user={"username": user},
        responseStatus=status,
    )


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_report_counts_by_user_and_namespace(
    packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        event(obj=GOOD),
        event("update", BAD),
        pcs_event("rack", "bob"),
        pcs_event("block", "bob"),
        pcs_event("block", "bob", 422),
        event(),
        event("get"),
    ]
    log = tmp_path / "audit.log"
    facts = tmp_path / "facts.yaml"
    text = "\n".join([*map(json.dumps, events), "{not json", ""]).encode()
    log.write_bytes(gzip.compress(text) if packed else text)
    facts.write_text(TOPOLOGY)
    assert main(["check", str(log), str(facts), "--output", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["events"], report["unreadable"], report["judged"]) == (7, 1, 4)
    assert report["users"] == [
        {
            "user": "alice",
            "namespace": "team",
            "judged": 2,
            "rejected": 1,
            "changed": 0,
            "warned": 0,
        },
        {"user": "bob", "namespace": "team", "judged": 2, "rejected": 1, "changed": 0, "warned": 0},
    ]
    assert report["notJudged"] == {REJECTED_THEN: 1, NO_OBJECT: 1}
    assert {(finding["outcome"], finding["kind"]) for finding in report["findings"]} == {
        ("rejected", "PodGroup"),
        ("rejected", "PodCliqueSet"),
    }
    assert "CREATE team/llm-x by bob at 2026-11-21T10:00:00.000000Z" in [
        f["example"] for f in report["findings"]
    ]
    assert main(["check", str(log), str(facts)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "7 events, 6 writes that a webhook looks at, 4 of them judged"
    assert "alice  team            2         1        0       0" in lines


def test_what_the_api_server_recorded_as_changed_is_told() -> None:
    recorded = {
        "mutation.webhook.admission.k8s.io/round_0_index_0": json.dumps(
            {"configuration": "c", "webhook": "podclique.example.com", "mutated": True}
        ),
        "mutation.webhook.admission.k8s.io/round_0_index_1": json.dumps(
            {"configuration": "c", "webhook": "other.example.com", "mutated": False}
        ),
        "mutation.webhook.admission.k8s.io/round_1_index_0": "{",
        "authorization.k8s.io/decision": "allow",
    }
    assert changing_webhooks(event(annotations=recorded)) == ["podclique.example.com"]
    refused = event(annotations=recorded, responseStatus={"code": 422})
    assert changing_webhooks(refused) == []
    assert changing_webhooks(event()) == []


@pytest.mark.parametrize(("with_node", "not_judged"), [(True, {}), (False, {NO_NODE: 1})])
def test_a_binding_is_judged_only_if_its_node_is_known(
    with_node: bool, not_judged: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "team"},
        "target": {"kind": "Node", "name": "gpu-0"},
    }
    ref = {"resource": "pods", "subresource": "binding", "namespace": "team", "name": "p"}
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(event(obj=binding, objectRef={**ref, "apiVersion": "v1"})))
    facts = tmp_path / "facts.yaml"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0", "labels": {}}}
    facts.write_text(TOPOLOGY + ("\n---\n" + json.dumps(node) if with_node else ""))
    main(["check", str(log), str(facts), "--output", "json"])
    assert json.loads(capsys.readouterr().out)["notJudged"] == not_judged


def test_facts_of_the_log_count_for_what_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = {
        "resource": "clustertopologies",
        "name": "grove-topology",
        "apiGroup": "grove.io",
        "apiVersion": "v1alpha1",
    }
    levels = [{"domain": "rack", "key": "example.com/rack"}]
    metadata = {"name": "grove-topology"}
    topology = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": metadata}
    operator = {"username": "system:serviceaccount:grove-system:grove-admission"}
    made = event(obj={**topology, "spec": {"levels": levels}}, objectRef=ref, user=operator)
    log = tmp_path / "audit.log"
    log.write_text(
        "\n".join(map(json.dumps, [pcs_event("rack", "eve"), made, pcs_event("rack", "bob")]))
    )
    main(["check", str(log), "--output", "json"])
    report = json.loads(capsys.readouterr().out)
    bob = [row for row in report["users"] if row["user"] == "bob"]
    assert [(row["judged"], row["rejected"]) for row in bob] == [(1, 0)]
    assert sum(report["notJudged"].values()) == 1


def made(verb: str, plural: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The event of a write of `obj`, an object of grove.io."""
    metadata = obj["metadata"]
    ref = {
        "resource": plural,
        "name": metadata["name"],
        "apiGroup": "grove.io",
        "apiVersion": "v1alpha1",
    }
    ref |= {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    sent = {"kind": "DeleteOptions", "apiVersion": "v1"} if verb == "delete" else obj
    return event(verb, sent, objectRef=ref)


BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "topo"},
    "spec": {"levels": [{"domain": "rack", "key": "example.com/rack"}]},
}
USER_OF_BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "llm", "namespace": "team"},
    "spec": {
        "template": {"topologyConstraint": {"topologyName": "topo", "pack": {"required": "rack"}}}
    },
}


@pytest.mark.parametrize(
    ("set_is_deleted", "findings"),
    [
        (True, []),
        (
            False,
            [
                (
                    "ClusterTopologyBinding",
                    'ClusterTopologyBinding "topo" cannot be deleted: the constraints on "rack" would vanish from the PodGangs of PodCliqueSets team/llm.',
                )
            ],
        ),
    ],
    ids=["after its user was deleted", "while it is used"],
)
def test_the_deletion_of_a_binding(
    set_is_deleted: bool, findings: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deletion = made("delete", "podcliquesets", USER_OF_BINDING)
    events = [
        made("create", "clustertopologybindings", BINDING),
        made("create", "podcliquesets", USER_OF_BINDING),
        *([deletion, deletion] if set_is_deleted else []),
        made("delete", "clustertopologybindings", BINDING),
    ]
    log = tmp_path / "audit.log"
    log.write_text("\n".join(map(json.dumps, events)))
    main(["check", str(log), "--output", "json"])
    report = json.loads(capsys.readouterr().out)
    assert [
        (each["kind"], each["message"].partition(" Change")[0]) for each in report["findings"]
    ] == findings
    assert report["judged"] == 3


def test_a_log_of_which_nothing_can_be_judged_is_unusable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(event()))
    assert main(["check", str(log)]) == 2
    printed = capsys.readouterr().out
    assert NO_OBJECT in printed
    assert MISSING_FACTS not in printed


def test_missing_facts_come_with_the_option_that_gives_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(pcs_event("rack", "eve")))
    assert main(["check", str(log)]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == MISSING_FACTS


@pytest.mark.untraced
def test_a_log_that_is_damaged_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At its beginning it is no audit log."""
    log = tmp_path / "audit.log.gz"
    noise = [{**event(obj=GOOD), "auditID": str(number * 7919)} for number in range(3000)]
    packed = gzip.compress("\n".join(map(json.dumps, noise)).encode())
    for at in (12, len(packed) - 4000):
        log.write_bytes(packed[:at] + b"\xff" * 1000 + packed[at + 1000 :])
        assert main(["check", str(log)]) == 2
        assert "can't be read" in capsys.readouterr().err


def test_a_document_that_no_api_server_stores_is_no_fact_for_what_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {**GOOD, "metadata": {"name": "a", "namespace": {}}}
    log = tmp_path / "audit.log"
    log.write_text("\n".join(map(json.dumps, [event(obj=odd), event(obj=GOOD)])))
    assert main(["check", str(log), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["judged"] == 2


@pytest.mark.untraced
def test_a_log_that_is_cut_off_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "audit.log.gz"
    noise = [{**event(obj=GOOD), "auditID": str(number * 7919)} for number in range(3000)]
    log.write_bytes(gzip.compress("\n".join(map(json.dumps, noise)).encode())[:-2000])
    assert main(["check", str(log)]) == 2
    assert "can't be read" in capsys.readouterr().err


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_log_on_standard_input(
    pack: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = "\n".join(map(json.dumps, [event(obj=BAD), event(obj=GOOD)] * 20)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(pack(log)))))
    assert main(["check", "-", "--output", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["events"], report["judged"], report["unreadable"]) == (40, 40, 0)


@pytest.mark.parametrize(
    "document", [json.dumps(GOOD), yaml.safe_dump(GOOD), json.dumps({**event(), "kind": "Policy"})]
)
def test_documents_on_standard_input_are_no_log(
    document: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(document.encode())))
    )
    assert main(["check", "-"]) == 0
    assert "judged, 0 refused" in capsys.readouterr().out


def test_logs_in_a_directory_are_read_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = [{"domain": "rack", "key": "example.com/rack"}]
    topology = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "grove-topology"},
    }
    (tmp_path / "facts.yaml").write_text(yaml.safe_dump({**topology, "spec": {"levels": levels}}))
    create = event(obj=GOOD)
    update = event("update", obj=BAD, user={"username": "bob"})
    (tmp_path / "audit-2026-11-20.log.gz").write_bytes(gzip.compress(json.dumps(create).encode()))
    (tmp_path / "audit.log").write_text(json.dumps(update))
    (tmp_path / "notes.txt").write_text("nothing of this")
    assert main(["check", str(tmp_path), "--output", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["events"], report["judged"], report["notJudged"]) == (2, 2, {})


@pytest.mark.parametrize("facts", [[], ["facts.yaml"]], ids=["alone", "with facts"])
def test_the_report_on_a_real_log_was_compared_with_its_events(
    facts: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["real.log.gz", *facts]
    assert main(["check", *(str(REAL / name) for name in names)]) == 0
    expected = REAL / ("report-with-facts.txt" if facts else "report.txt")
    assert capsys.readouterr().out == expected.read_text()


def test_a_set_that_was_deleted_is_no_fact_for_what_follows() -> None:
    history = History({GROUP: ("CREATE", "UPDATE")}, ())
    events = [
        event(obj=GOOD),
        event("delete", responseObject=ENDING),
        event("patch", {}, responseObject=ENDED),
    ]
    writes = [history.write_of(item) for item in events]
    assert [write is not None and write.stored is not None for write in writes] == [
        True,
        False,
        False,
    ]
