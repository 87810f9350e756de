"""Dry runs over HTTP: what is shown, and what is said of requests that can't be judged."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.schema import Configuration, Enforcement
from app.dry_run.judge import Judgement
from app.server import dry_runs
from app.server.dry_runs import MAX_DRY_RUN
from tests.dry_run.attacks import LONG_ALIASES, MANY_LAUGHS
from tests.reviews import Caller, load
from tests.server.test_endpoints import Served

EXAMPLES = Path(__file__).parent.parent.parent / "manifests" / "examples"
CLIQUE = yaml.safe_dump(load("podclique.replica-scope-0-worker")["request"]["object"])
GOOD = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "a"},
    "spec": {},
}
BAD = {**GOOD, "spec": {"subGroups": [{"name": "A"}]}}


async def test_a_dry_run_shows_what_would_happen_and_does_not_do_it() -> None:
    served = Served()
    report = await served.dry_run(CLIQUE)
    (result,) = report["results"]
    assert report["allowed"] is True
    assert result["webhook"] == "/mutate/podclique"
    assert result["object"]["name"] == "distributed-training-0-worker"
    assert [created["kind"] for created in result["wouldCreate"]] == [
        "ComputeDomain",
        "ResourceClaim",
    ]
    assert result["patchedObject"]["spec"]["podSpec"]["resourceClaims"][0]["name"] == "mnnvl"
    assert served.cluster.client.writes() == []


async def test_a_dry_run_gives_the_verdict_of_the_live_path() -> None:
    for name in (
        "podgroup.cycle",
        "podcliqueset.topology-host-parent-rack-child",
        "podclique.invalid-scope",
    ):
        live = await Caller().ask(
            f"/{'mutate' if 'clique.' in name else 'validate'}/{name.split('.')[0]}", load(name)
        )
        document = load(name)["request"]["object"]
        for content in (json.dumps(document), yaml.safe_dump(document)):
            (result,) = (await Served().dry_run(content))["results"]
            assert (result["code"], result["message"]) == (422, live["status"]["message"])


async def test_several_documents_each_get_a_verdict() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    text = yaml.safe_dump_all(
        [GOOD, None, BAD, node, {"apiVersion": "v1", "kind": "List", "items": [GOOD]}]
    )
    report = await Served().dry_run(text)
    assert report["allowed"] is False
    assert [(result["webhook"], result["allowed"]) for result in report["results"]] == [
        ("/validate/podgroup", True),
        ("/validate/podgroup", False),
        (None, True),
        ("/validate/podgroup", True),
    ]


async def test_who_asks_for_what() -> None:
    served = Served()
    topology = yaml.safe_dump(
        load("clustertopology.managed-create-by-operator")["request"]["object"]
    )
    operator = "system:serviceaccount:grove-system:grove-admission"
    for operation in ("CREATE", "UPDATE", "DELETE"):
        assert (await served.dry_run(topology, operation=operation))["results"][0]["code"] == 403
        assert (await served.dry_run(topology, operation=operation, user=operator))[
            "allowed"
        ] is True


async def test_an_update_is_judged_against_what_it_replaces() -> None:
    served = Served()
    invalid = load("podcliqueset.topology-host-parent-rack-child")["request"]["object"]
    text = yaml.safe_dump(invalid)
    (kept,) = (await served.dry_run(text, operation="UPDATE"))["results"]
    assert (kept["allowed"], len(kept["warnings"])) == (True, 1)
    before = json.loads(json.dumps(invalid))
    before["spec"]["template"].pop("topologyConstraint")
    (changed,) = (await served.dry_run(text, operation="UPDATE", old=yaml.safe_dump(before)))[
        "results"
    ]
    assert changed["code"] == 422


async def test_text_is_for_people() -> None:
    text = (EXAMPLES / "podcliqueset-refused.yaml").read_text() + "---\n" + CLIQUE
    text += "---\n" + yaml.safe_dump(load("pod-binding.missing-node")["request"]["object"])
    text += "---\n" + yaml.safe_dump(
        load("clustertopology.managed-create-by-user")["request"]["object"]
    )
    text += "---\nkind: Thing\n"
    answer = await Served().request("POST", "/dry-run?output=text", content=text)
    lines = answer.text.splitlines()
    assert lines[0] == "REFUSED  PodCliqueSet default/inverted (422 Invalid)"
    assert lines[1].startswith(
        "           spec.template.cliques[0].topologyConstraint.packDomain: Invalid value"
    )
    assert 'add     spec.podSpec.containers[0].resources.claims = [{"name":"mnnvl"}]' in answer.text
    assert "would create ComputeDomain default/distributed-training-0-cd" in answer.text
    assert 'warning: node "missing-node" is not known' in answer.text
    assert (
        'ClusterTopology "grove-topology" is managed by grove-admission: user "dry-run"'
        in answer.text
    )
    assert lines[-1] == "-        Thing (no name): no webhook judges this Thing"


async def test_text_says_what_a_trial_period_only_warns_of() -> None:
    served = Served(Configuration(enforcement=Enforcement(mode="warn")))
    answer = await served.request("POST", "/dry-run?output=text", content=yaml.safe_dump(BAD))
    title, warning, *_ = answer.text.splitlines()
    assert title == "WARNED   PodGroup a"
    assert warning.startswith("           warning: would be refused: invalid subgroup name")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "no document found", id="empty"),
        pytest.param(b"---\n---\n", "no document found", id="only separators"),
        pytest.param(b"just text", "document 1 is not a map", id="text"),
        pytest.param(b"a: [", "not valid YAML or JSON", id="broken YAML"),
        pytest.param(b'{"a": ', "not valid YAML or JSON", id="broken JSON"),
        pytest.param(b"[1]", "document 1 is not a map", id="a JSON list"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="not UTF-8"),
        pytest.param(b"1: 2", "the key 1 is not a string", id="a key that is a number"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep nesting"),
        pytest.param(
            b"a: &a [*a]", "refers to a value that contains it", id="a list that holds itself"
        ),
        pytest.param(
            b"&a {kind: Pod, x: *a}",
            "refers to a value that contains it",
            id="a map that holds itself",
        ),
        pytest.param(
            b"a0: &a0 [x]\n"
            + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 1500)),
            "nested too deeply",
            id="aliases of aliases",
        ),
        pytest.param(
            b'{"kind":"Pod","x":' + b"[" * 1000 + b"]" * 1000 + b"}",
            "nested too deeply",
            id="deep JSON",
        ),
        pytest.param(
            b"{a: !!python/object:os.system 1}", "could not determine a constructor", id="a tag"
        ),
        pytest.param(b"a: !!int one", "not valid YAML or JSON", id="a number that is none"),
        pytest.param(b"a: 1\n---\n" * 1001, "more than 1000 documents", id="too many"),
        pytest.param(
            b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 10))
                for n in range(98, 105)
            ),
            "counting each use of an alias",
            id="aliases that blow up",
        ),
        pytest.param(LONG_ALIASES.encode(), "more than 4 MiB of text", id="aliases of a long text"),
        pytest.param(
            MANY_LAUGHS.encode(), "more than 250,000 values", id="many documents of aliases"
        ),
    ],
)
async def test_documents_that_can_not_be_judged(content: bytes, text: str) -> None:
    answer = await Served().request("POST", "/dry-run", content=content)
    assert answer.status_code == 400
    assert text in answer.json()["error"]


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": []},
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "a"},
            "spec": 7,
        },
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "a"},
            "spec": [],
        },
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "a"},
            "spec": {
                "podgroups": [1],
                "topologyConstraintGroupConfigs": [{"topologyConstraint": "x"}],
            },
        },
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "a\n"},
            "spec": {},
        },
    ],
)
async def test_odd_shapes_are_the_users_to_mend(document: Any) -> None:
    (result,) = (await Served().dry_run(json.dumps(document)))["results"]
    assert (result["allowed"], result["code"]) == (False, 422)


async def test_a_timestamp_stays_text() -> None:
    text = CLIQUE + "status:\n  at: 2026-01-01T00:00:00Z\n"
    (result,) = (await Served().dry_run(text))["results"]
    assert result["patchedObject"]["status"] == {"at": "2026-01-01T00:00:00Z"}


@pytest.mark.untraced
async def test_of_many_dry_runs_at_once_some_are_asked_to_come_again() -> None:
    served = Served()
    content = "\n---\n".join([CLIQUE] * 50)
    answers = await asyncio.gather(
        *(served.request("POST", "/dry-run", content=content) for _ in range(40))
    )
    codes = {answer.status_code for answer in answers}
    assert codes == {200, 503}
    assert {answer.headers["retry-after"] for answer in answers if answer.status_code == 503} == {
        "1"
    }
    assert (await served.request("POST", "/dry-run", content=CLIQUE)).status_code == 200


async def test_one_dry_run_is_judged_at_a_time_and_none_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers: list[int] = []
    now = 0
    seconds = 0.05

    async def judge(_routes: Any, document: Any, _asker: Any) -> Judgement:
        nonlocal now
        now += 1
        numbers.append(now)
        try:
            await asyncio.sleep(seconds)
        finally:
            now -= 1
        return Judgement(document)

    monkeypatch.setattr(dry_runs, "judge", judge)
    served = Served()
    asked = [served.request("POST", "/dry-run", content="kind: Thing") for _ in range(8)]
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
    assert numbers == [1] * 8

    seconds = 1000.0
    monkeypatch.setattr(dry_runs, "JUDGING_SECONDS", 0.1)
    asked = [served.request("POST", "/dry-run", content="kind: Thing") for _ in range(8)]
    answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["error"] == (
        "no verdicts within 0.1 s, including the wait for other dry runs: try again, or send fewer"
        " or smaller documents"
    )


async def test_an_answer_is_not_much_larger_than_its_documents() -> None:
    content = f"{CLIQUE}zeros: {'[' * 180}{'0,' * 40_000}{']' * 180}\n"
    answer = await Served().request("POST", "/dry-run", content=content)
    assert answer.status_code == 200
    assert len(answer.content) < 1.5 * len(content)


async def test_an_answer_has_a_limit() -> None:
    text = "\\x01" * 200_000
    content = f'{CLIQUE}texts: [&text "{text}"{", *text" * 15}]\n'
    answer = await Served().request("POST", "/dry-run", content=content)
    said = "the answer is larger than 8 MiB: send fewer or smaller documents"
    assert (answer.status_code, answer.json()) == (400, {"error": said})


async def test_a_body_that_is_too_large_is_said() -> None:
    answer = await Served().request("POST", "/dry-run", content=b"x" * (MAX_DRY_RUN + 1))
    assert (answer.status_code, answer.json()) == (
        413,
        {"error": "the body is larger than the limit of 2048 KiB: send fewer or smaller documents"},
    )


@pytest.mark.parametrize(
    ("query", "loc"),
    [
        pytest.param("operation=CONNECT", "operation", id="an operation that we don't judge"),
        pytest.param("operation=create", "operation", id="in lower case"),
        pytest.param("output=yaml", "output", id="an output that there isn't"),
    ],
)
async def test_an_odd_question_is_named(query: str, loc: str) -> None:
    answer = await Served().request("POST", f"/dry-run?{query}", content=CLIQUE)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{loc}: Input should be ")


async def test_a_parameter_that_there_is_not_is_no_answer_to_another_question() -> None:
    answer = await Served().request("POST", "/dry-run?operaton=UPDATE", content=CLIQUE)
    said = {
        "error": "unknown query parameters: operaton. The known ones are old, operation, output, user"
    }
    assert (answer.status_code, answer.json()) == (400, said)


@pytest.mark.parametrize(
    ("old", "text"),
    [
        ("a: [", "not valid YAML or JSON"),
        ("7", "is not a map"),
        ("a: &a [*a]", "refers to a value"),
    ],
)
async def test_an_old_document_that_can_not_be_read(old: str, text: str) -> None:
    answer = await Served().request(
        "POST", "/dry-run", content=CLIQUE, params={"old": old, "operation": "UPDATE"}
    )
    assert answer.status_code == 400
    assert text in answer.json()["error"]


async def test_a_byte_order_mark_is_no_text() -> None:
    (result,) = (await Served().dry_run(b"\xef\xbb\xbf" + yaml.safe_dump(BAD).encode()))["results"]
    assert result["code"] == 422


async def test_what_json_can_not_say_is_said_all_the_same() -> None:
    text = CLIQUE + f"unknown: {{big: {2**70}, bytes: !!binary aGk=}}\n"
    (result,) = (await Served().dry_run(text))["results"]
    assert result["allowed"] is True
    assert result["patchedObject"]["unknown"]["big"] == 2**70
