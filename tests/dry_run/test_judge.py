"""Documents to judgements, without HTTP: what is read, who is asked, and what is shown.

Tests `app/dry_run/templates.py`.
"""

from typing import Any

import pytest

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Effect, Verdict, patched
from app.base.unusable import UnusableInput
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, Judgement, describe, identify, judge
from app.dry_run.templates import MOST_TEMPLATES, TOO_MANY
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.kinds import ALL
from app.objects.fields import FieldError
from app.webhooks.registry import WEBHOOKS
from tests.reviews import cluster, default_routes

DOCUMENTS: list[Any] = [
    pytest.param("a: 1", [{"a": 1}], id="YAML"),
    pytest.param('{"a": 1}', [{"a": 1}], id="JSON"),
    pytest.param("{a: 1}", [{"a": 1}], id="YAML that begins like JSON"),
    pytest.param('[{"a": 1}, {"b": 2}]', [{"a": 1}, {"b": 2}], id="a JSON list"),
    pytest.param("a: 1\n---\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="several documents, one empty"),
    pytest.param(
        "kind: ThingList\nitems: [{a: 1}, 2, {b: 2}]",
        [{"a": 1}, {"b": 2}],
        id="the items of a list",
    ),
    pytest.param(
        "kind: Listing\nitems: [{a: 1}]",
        [{"kind": "Listing", "items": [{"a": 1}]}],
        id="items of its own",
    ),
    pytest.param("kind: List\nitems: 7", [{"kind": "List", "items": 7}], id="a list without items"),
    pytest.param("a: &x {b: 1}\nc: *x", [{"a": {"b": 1}, "c": {"b": 1}}], id="an alias"),
    pytest.param(
        "a: 2026-01-01\nb: 2026-01-01T00:00:00Z",
        [{"a": "2026-01-01", "b": "2026-01-01T00:00:00Z"}],
        id="dates",
    ),
    pytest.param(
        "a: .nan\nb: !!timestamp 2026-01-01",
        [{"a": None, "b": "2026-01-01"}],
        id="values that JSON does not have",
    ),
    pytest.param(
        'a: "on"\nb: null\nc: ~',
        [{"a": "on", "b": None, "c": None}],
        id="nothing in three spellings",
    ),
]


@pytest.mark.parametrize(("text", "documents"), DOCUMENTS)
def test_documents_are_read(text: str, documents: list[dict[str, Any]]) -> None:
    assert read_documents(text) == documents


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            "a: 1\n---\n- b",
            "document 2 is not a map with apiVersion and kind",
            id="which document",
        ),
        pytest.param(
            '[{"a": 1}, 7]', "document 2 is not a map with apiVersion and kind", id="which item"
        ),
        pytest.param("kind: List\nitems: []", "no document found", id="an empty list"),
        pytest.param(
            "a: {true: 1}", "the key True is not a string: put it in quotes", id="a boolean as key"
        ),
        pytest.param("a: 1\na: [", "not valid YAML or JSON: while parsing", id="on one line"),
        pytest.param("a: {{ .Values.a }}", "not YAML, but a template", id="a value of a template"),
        pytest.param(
            "{{- if .Values.a }}\na: 1\n{{- end }}",
            "not YAML, but a template, as in Helm charts: render it first",
            id="a condition of a template",
        ),
        pytest.param(
            "x: " + "[" * 201 + "]" * 201,
            "the text is nested too deeply: more than 200 levels",
            id="deep YAML",
        ),
        pytest.param(
            '{"x":' + "[" * 201 + "]" * 201 + "}",
            "the text is nested too deeply: more than 200",
            id="deep JSON",
        ),
    ],
)
def test_unusable_text_is_said_why(text: str, reason: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_documents(text)
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)


def test_nesting_up_to_the_limit_is_read() -> None:
    for text in ("x: " + "[" * 199 + "]" * 199, '{"x":' + "[" * 199 + "]" * 199 + "}"):
        assert len(read_documents(text)) == 1


@pytest.mark.parametrize(
    ("document", "identity"),
    [
        ({}, ("", "", "", "")),
        (
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "n", "namespace": "s"}},
            ("v1", "A", "s", "n"),
        ),
        ({"kind": "A", "metadata": ["n"]}, ("", "A", "", "")),
    ],
)
def test_a_document_is_known_by_four_things(
    document: dict[str, Any], identity: tuple[str, ...]
) -> None:
    assert identify(document) == identity


async def test_every_webhook_is_reached_by_its_document() -> None:
    routes = default_routes(cluster())
    for webhook in WEBHOOKS:
        resource = webhook.resource
        kind = webhook.kind or webhook.resource.kind
        document = {"apiVersion": resource.api_version(), "kind": kind, "metadata": {"name": "a"}}
        asker = Asker("me", operation=webhook.operations[0])
        only_it = {webhook.path: routes[webhook.path]}
        assert (await judge(only_it, document, asker)).path == webhook.path
    others = {item.kind for item in ALL} - {item.resource.kind for item in WEBHOOKS}
    for kind in (*others, "Pod", "Deployment"):
        unknown = {"apiVersion": "apps/v1", "kind": kind}
        judged = await judge(routes, unknown, Asker("me"))
        assert (judged.verdict, judged.path) == (None, "")


ASKED: list[Any] = [
    pytest.param("CREATE", (), None, id="a creation has no old object"),
    pytest.param("UPDATE", (), "itself", id="an update replaces its like"),
    pytest.param(
        "UPDATE",
        ({"metadata": {"name": "other"}},),
        "itself",
        id="another object is not its old one",
    ),
    pytest.param(
        "UPDATE",
        ({"metadata": {"name": "a", "namespace": "default"}},),
        "given",
        id="by its namespace",
    ),
    pytest.param(
        "UPDATE",
        ({"metadata": {"name": "a", "namespace": "x"}},),
        "itself",
        id="of another namespace",
    ),
    pytest.param("UPDATE", ({"metadata": {"name": "a"}},), "given", id="without a namespace"),
]


@pytest.mark.parametrize(("operation", "old", "seen"), ASKED)
async def test_what_a_webhook_is_asked(
    operation: str, old: tuple[dict[str, Any], ...], seen: str | None
) -> None:
    taken: list[Request] = []

    def take(request: Request) -> Verdict:
        taken.append(request)
        return ALLOWED

    (webhook,) = (item for item in WEBHOOKS if item.path == "/validate/podgroup")
    document = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "a"},
    }
    before = tuple({**document, **item, "marked": True} for item in old)
    await judge({webhook.path: webhook.route(take)}, document, Asker("me", operation, before))
    (request,) = taken
    assert request.dry_run is True
    assert (request.username, request.namespace, request.name, request.operation) == (
        "me",
        "default",
        "a",
        operation,
    )
    assert request.object == document
    assert (
        request.old
        == {None: None, "itself": document, "given": before[0] if before else None}[seen]
    )


async def test_a_deletion_is_judged_by_the_stored_object() -> None:
    taken: list[Request] = []

    def take(request: Request) -> Verdict:
        taken.append(request)
        return ALLOWED

    webhook = next(item for item in WEBHOOKS if "DELETE" in item.operations)
    document = {
        "apiVersion": webhook.resource.api_version(),
        "kind": webhook.resource.kind,
        "metadata": {"name": "a"},
    }
    stored = {**document, "marked": True}
    for old, judged in (((), document), ((stored,), stored)):
        await judge({webhook.path: webhook.route(take)}, document, Asker("me", "DELETE", old))
        request = taken.pop()
        assert (request.object, request.old, request.operation) == (judged, None, "DELETE")


async def test_only_documents_are_told_what_grove_rejects() -> None:
    """Grove has accepted what is stored, perhaps in a release with other rules."""
    routes = default_routes(cluster())

    def document(role: str) -> dict[str, Any]:
        clique = {"name": "a", "spec": {"roleName": role, "replicas": 1, "podSpec": {}}}
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "s"},
            "spec": {"replicas": 1, "template": {"cliques": [clique, clique]}},
        }

    async def warned(asker: Asker) -> list[str]:
        verdict = (await judge(routes, document("r"), asker)).verdict
        assert verdict is not None
        return [text.partition(":")[0] for text in verdict.warnings]

    twice = ["spec.template.cliques[0].name", "spec.template.cliques[0].spec.roleName"]
    assert await warned(Asker("me")) == twice
    assert await warned(Asker("me", "UPDATE", (document("q"),))) == [
        "spec.template.cliques[1].spec.roleName",
        "spec.template.cliques[0].spec.roleName",
    ]
    assert await warned(Asker("audit", reads_stored=True)) == []


async def test_a_shared_claim_is_reported_once() -> None:
    """Grove allows no change of resourceSharing, so a later document can't correct it."""
    clique = {"name": "a", "spec": {"roleName": "a", "replicas": 300, "podSpec": {}}}
    sharing = [{"name": "pool", "scope": "AllReplicas"}]
    template = {"cliques": [{**clique, "resourceSharing": sharing}]}
    document = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {"replicas": 1, "template": template},
    }

    async def shared(asker: Asker) -> list[str]:
        judged = await judge(default_routes(cluster()), document, asker)
        assert judged.verdict
        return [text for text in judged.verdict.warnings if "share a claim" in text]

    assert len(await shared(Asker("me"))) == 1
    assert await shared(Asker("me", "UPDATE", (document,))) == []


async def test_the_names_of_a_set_that_is_too_large_are_not_compared() -> None:
    document = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"template": {"cliques": [{"name": "a"}] * (MOST_PARTS + 1)}},
    }
    verdict = (await judge(default_routes(cluster()), document, Asker("me"))).verdict
    assert verdict is not None
    assert not verdict.allowed
    assert verdict.warnings == ()


async def test_documents_of_podgroups_are_told_what_kai_rejects() -> None:
    document = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "a"},
        "spec": {"minMember": 1, "minSubGroup": 1},
    }
    verdict = (await judge(default_routes(cluster()), document, Asker("me"))).verdict
    assert verdict is not None
    assert verdict.warnings == (
        "spec.minSubGroup: KAI rejects this: minMember is set too. Remove one of them",
    )


OBJECT = {
    "apiVersion": "g/v1",
    "kind": "Thing",
    "metadata": {"name": "a", "namespace": "ns"},
    "spec": {},
}
IDENTITY = {"apiVersion": "g/v1", "kind": "Thing", "namespace": "ns", "name": "a"}
MADE = {"kind": "Made", "metadata": {"name": "m", "namespace": "ns"}}
OPERATIONS: list[dict[str, Any]] = [
    {"op": "add", "path": "/spec/a", "value": [1]},
    {"op": "add", "path": "/spec/a/-", "value": 2},
    {"op": "add", "path": "/metadata/labels", "value": {}},
    {"op": "add", "path": "/metadata/labels/x~1y", "value": "z"},
    {"op": "replace", "path": "/spec/a/0", "value": None},
    {"op": "remove", "path": "/spec/a/1"},
]
FINDING = FieldError("spec.a", "FieldValueInvalid", "Invalid value: 1: no")


def test_a_patch_is_shown_with_what_it_makes() -> None:
    verdict = patched(
        OPERATIONS, warnings=["mind"], effects=[Effect("create", MADE), Effect("adopt", MADE)]
    )
    judgement = Judgement(OBJECT, "/path", verdict)
    assert judgement.report() == {
        "object": IDENTITY,
        "webhook": "/path",
        "allowed": True,
        "code": 200,
        "warnings": ["mind"],
        "patch": OPERATIONS,
        "patchedObject": {
            **OBJECT,
            "metadata": {"name": "a", "namespace": "ns", "labels": {"x/y": "z"}},
            "spec": {"a": [None]},
        },
        "wouldCreate": [MADE],
        "wouldAdopt": [MADE],
    }
    assert describe(judgement) == [
        "PATCHED  Thing ns/a",
        "           warning: mind",
        "           add     spec.a = [1]",
        "           add     spec.a[+] = 2",
        "           add     metadata.labels = {}",
        '           add     metadata.labels[x/y] = "z"',
        "           replace spec.a[0] = null",
        "           remove  spec.a[1]",
        "           would create Made ns/m",
        "           would adopt Made ns/m",
    ]


@pytest.mark.parametrize(
    ("verdict", "report", "lines"),
    [
        pytest.param(
            None, {"webhook": None, "allowed": True, "code": 200}, ["-        "], id="nobody's"
        ),
        pytest.param(
            ALLOWED,
            {"webhook": "/p", "allowed": True, "code": 200},
            ["ALLOWED  Thing ns/a"],
            id="allowed",
        ),
        pytest.param(
            Verdict(False, 422, "Invalid", "all of it", (FINDING, FINDING)),
            {
                "webhook": "/p",
                "allowed": False,
                "code": 422,
                "message": "all of it",
                "causes": [
                    {"field": FINDING.field, "reason": FINDING.reason, "message": FINDING.message}
                ]
                * 2,
            },
            ["REFUSED  Thing ns/a (422 Invalid)", *["           spec.a: Invalid value: 1: no"] * 2],
            id="refused for reasons",
        ),
        pytest.param(
            Verdict(False, 503, "ServiceUnavailable", "later"),
            {"webhook": "/p", "allowed": False, "code": 503, "message": "later"},
            ["NO VERDICT  Thing ns/a", "           later"],
            id="failed",
        ),
    ],
)
def test_a_verdict_is_shown(
    verdict: Verdict | None, report: dict[str, Any], lines: list[str]
) -> None:
    judgement = Judgement(OBJECT, "/p" if verdict else "", verdict)
    assert judgement.report() == {"object": IDENTITY, **report}
    if verdict is not None:
        assert describe(judgement) == lines
    else:
        assert describe(judgement) == ["-        Thing ns/a: no webhook judges g/v1 Thing"]


async def test_a_workload_of_many_templates_is_not_judged() -> None:
    """A verdict on each of 9,000 templates looks at all others, which took 89 s."""
    template = {
        "metadata": {"annotations": {"grove.io/mnnvl-enabled": "true"}},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
    job = {"template": {"spec": {"template": template}}}
    kinds = {
        "jobset.x-k8s.io/v1alpha2 JobSet": ("replicatedJobs", {"name": "j", **job}),
        "disaggregatedset.x-k8s.io/v1 DisaggregatedSet": (
            "roles",
            {"spec": {"leaderWorkerTemplate": job}},
        ),
    }
    for named, (field, part) in kinds.items():
        api_version, kind = named.split()
        judged = []
        for number in (MOST_TEMPLATES, MOST_TEMPLATES + 1):
            document = {
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {"name": "a"},
                "spec": {field: [part] * number},
            }
            judged.append((await judge({}, document, Asker("somebody"))).verdict == TOO_MANY)
        assert judged == [False, True]
