"""Every recorded request, through bytes and the whole admission path: verdict, code, message, patch
and what was made.

`testdata/verdicts.json` is the table. It was written once from what the server gave and read line
by line against the designs; the SubGroup messages are written out here as well.

Tests `app/webhooks/clustertopology.py` and `app/webhooks/podgroup.py`.
"""

import copy
import json
from typing import Any

import pytest
from jsonpatch import apply_patch

from tests.reviews import (
    DIRECTORY,
    OPERATORS,
    Caller,
    load,
    names,
    operator_cluster,
    operator_names,
    patch_of,
    path_of,
)

pytestmark = pytest.mark.untraced

EXPECTED: dict[str, Any] = json.loads((DIRECTORY.parent / "verdicts.json").read_text())
BY_OPERATOR: dict[str, dict[str, Any]] = {
    operator: json.loads((DIRECTORY.parent / f"verdicts-{operator}.json").read_text())
    for operator in OPERATORS
}

RULE = "must consist of lowercase alphanumeric characters or '-', must start and end with an alphanumeric character"
SUBGROUP_MESSAGES = {
    "podgroup.mixed-case-name": f'invalid subgroup name "DecodeWorkers": {RULE}',
    "podgroup.mixed-case-parent": f'invalid parent name "Workers" for subgroup "leaders": {RULE}',
    "podgroup.underscore": f'invalid subgroup name "decode_workers": {RULE}',
    "podgroup.trailing-newline": f'invalid subgroup name "workers\\n": {RULE}',
    "podgroup.too-long": f'invalid subgroup name "{"a" * 64}": name must be no more than 63 characters',
    "podgroup.update-to-invalid": f'invalid subgroup name "Prefill": {RULE}',
    "podgroup.duplicate": "duplicate subgroup name a",
    "podgroup.missing-parent": "parent zzz of a was not found",
    "podgroup.cycle": "cycle detected in subgroups",
}


async def judged(
    name: str, caller: Caller | None = None, review: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What the server answers and does, without the uid. `review` is asked in place of `name`."""
    caller = caller or Caller()
    response = await caller.ask(path_of(name), review or load(name))
    result: dict[str, Any] = {"allowed": response["allowed"]}
    if "status" in response:
        result["status"] = response["status"]
    if "warnings" in response:
        result["warnings"] = response["warnings"]
    if "patch" in response:
        result["patch"] = patch_of(response)
    written = [
        f"{call.verb} {call.resource} {call.name}" for call in caller.cluster.client.writes()
    ]
    if written:
        result["writes"] = written
    return result


def test_every_recording_has_its_row() -> None:
    assert sorted(EXPECTED) == names()


@pytest.mark.parametrize("name", names())
@pytest.mark.statement("1.11", "1.47", "2.16", "2.28", "2.40", "3.45")
async def test_a_recorded_request_gets_its_verdict(name: str) -> None:
    assert await judged(name) == EXPECTED[name]


@pytest.mark.parametrize(("name", "message"), SUBGROUP_MESSAGES.items())
@pytest.mark.statement(
    "3.2", "3.11", "3.12", "3.13", "3.14", "3.15", "3.18", "3.19", "3.20", "3.23", "3.25", "3.27"
)
async def test_subgroup_messages_are_the_designs_letter_for_letter(name: str, message: str) -> None:
    assert (await judged(name))["status"]["message"] == message


OF_OPERATORS = [(operator, name) for operator in OPERATORS for name in operator_names(operator)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_recording_of_a_real_operator_has_its_row(operator: str) -> None:
    assert sorted(BY_OPERATOR[operator]) == operator_names(operator)


@pytest.mark.parametrize(("operator", "name"), OF_OPERATORS, ids=[name for _, name in OF_OPERATORS])
async def test_a_request_of_a_real_operator_gets_its_verdict(operator: str, name: str) -> None:
    assert await judged(name, Caller(operator_cluster(operator))) == BY_OPERATOR[operator][name]


@pytest.mark.parametrize(
    "name", [name for name in operator_names("grove-fcc3b3bb") if "/podgang." in name]
)
async def test_a_podgang_of_todays_operator_is_never_patched(name: str) -> None:
    for enabled in (True, False):
        caller = Caller(operator_cluster("grove-fcc3b3bb", enabled=enabled))
        assert await judged(name, caller) == {"allowed": True}


@pytest.mark.parametrize("name", names())
@pytest.mark.statement("2.75")
async def test_a_review_without_a_token_gets_its_verdict_and_writes_nothing(name: str) -> None:
    caller = Caller(is_trusted=False)

    verdict = await judged(name, caller)

    expected = {key: value for key, value in EXPECTED[name].items() if key != "writes"}
    told = [text for text in verdict.pop("warnings", []) if "without a valid token" not in text]
    if told:
        verdict["warnings"] = told
    assert verdict == expected
    assert caller.cluster.client.writes() == []


def mutated() -> list[str]:
    return [name for name in names() if EXPECTED.get(name, {}).get("patch")]


@pytest.mark.parametrize("name", mutated())
@pytest.mark.statement("2.74", "5.41")
async def test_a_second_pass_over_a_mutated_object_changes_nothing(name: str) -> None:
    caller = Caller()
    review = load(name)
    first = await caller.ask(path_of(name), review)
    review["request"]["object"] = apply_patch(review["request"]["object"], patch_of(first))
    again = await caller.ask(path_of(name), review)
    assert again == {"uid": review["request"]["uid"], "allowed": True}


@pytest.mark.parametrize("name", mutated())
@pytest.mark.statement("2.27", "2.39", "2.51", "2.109")
async def test_what_we_do_not_know_survives_a_mutation(name: str) -> None:
    review = load(name)
    obj = review["request"]["object"]
    obj["unknown"] = {"a/b~c": [1, None, {"x": 2}]}
    obj["metadata"]["labels"]["some.where/label"] = "kept"
    obj["metadata"].setdefault("annotations", {})["some.where/note"] = "kept"
    before = copy.deepcopy(obj)
    after = apply_patch(obj, patch_of(await Caller().ask(path_of(name), review)))
    assert after["unknown"] == before["unknown"]
    assert after["metadata"]["labels"]["some.where/label"] == "kept"
    assert after["metadata"]["annotations"]["some.where/note"] == "kept"
    assert obj == before


@pytest.mark.parametrize(
    "name", [name for name in names() if name.startswith(("podclique.", "podgang."))]
)
async def test_a_dry_run_writes_nothing_and_answers_the_same(name: str) -> None:
    caller = Caller()
    review = load(name)
    review["request"]["dryRun"] = True
    response = await caller.ask(path_of(name), review)
    assert caller.cluster.client.writes() == []
    assert patch_of(response) == EXPECTED[name].get("patch", [])
