"""A trial period: what would be refused is allowed with warnings in the same words."""

import copy
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from app.admission.review import header_line
from app.admission.verdict import Verdict
from app.config.schema import Configuration, Enforcement, WebhookModes
from app.webhooks.registry import WEBHOOKS, warning_paths
from tests.fuzz.mutation import Vocabulary
from tests.reviews import OPERATORS, Caller, load, names, operator_cluster, operator_names, path_of

COUNT = 500
ALL = Configuration(enforcement=Enforcement(mode="warn"))

Review = dict[str, Any]


def modes(**of_webhooks: str) -> WebhookModes:
    return WebhookModes.model_validate(of_webhooks)


def recorded() -> list[tuple[str, str]]:
    """The folder of the cluster, "" for the one of the designs, and the name of each recording."""
    of_operators = [(operator, name) for operator in OPERATORS for name in operator_names(operator)]
    return [*(("", name) for name in names()), *of_operators]


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary([load(name)["request"]["object"] or {} for _, name in recorded()])


def mutated(review: Review, random: Random) -> Review:
    """The review with a few changes of its object."""
    changed = copy.deepcopy(review)
    changed["request"]["object"] = vocabulary().changed(review["request"]["object"], random)
    return changed


def cases() -> list[tuple[str, str, Review]]:
    """At least COUNT reviews, each with its cluster and its path; nothing is created for them."""
    random = Random(7)
    made = [(place, path_of(name), load(name)) for place, name in recorded()]
    written = [case for case in made if isinstance(case[2]["request"]["object"], dict)]
    while len(made) < COUNT:
        place, path, review = random.choice(written)
        made.append((place, path, mutated(review, random)))
    for _, _, review in made:
        review["request"]["dryRun"] = True
    return made


def callers(configuration: Configuration) -> dict[str, Caller]:
    of_designs = Caller(configuration=configuration)
    return {"": of_designs} | {
        operator: Caller(operator_cluster(operator), configuration) for operator in OPERATORS
    }


async def asked(caller: Caller, path: str, review: Review) -> tuple[Verdict, dict[str, Any]]:
    """The verdict, and the answer without its uid."""
    response = await caller.ask(path, review)
    del response["uid"]
    return caller.seen.verdicts[-1][2], response


async def test_500_recorded_and_mutated_reviews_in_both_modes() -> None:
    refusing = callers(Configuration())
    warning = callers(ALL)
    outcomes = Counter[str]()
    for place, path, review in cases():
        refused, former = await asked(refusing[place], path, review)
        warned, answer = await asked(warning[place], path, review)
        outcomes[refused.outcome] += 1
        if refused.allowed or refused.final or refused.code not in (403, 422):
            assert (warned, answer) == (refused, former)
            outcomes["the same"] += 1
            continue

        words = [str(cause) for cause in refused.causes] or [refused.message]
        told = [f"would be refused: {text}" for text in words]
        assert warned.warnings == (*told, *refused.warnings)
        assert warned.message == refused.message
        assert (warned.outcome, warned.code) == ("warned", refused.code)
        assert answer["allowed"] is True
        assert set(answer) == {"allowed", "warnings"}
        most = 4096 if sum(map(len, warned.warnings)) <= 4096 else 256
        assert answer["warnings"][: len(told)] == [header_line(text, most) for text in told[:100]]
        outcomes["warned"] += 1

    assert (
        outcomes["refused"] + outcomes["allowed"] + outcomes["patched"] + outcomes["failed"]
        >= COUNT
    )
    assert outcomes["warned"] > 100
    assert outcomes["the same"] > 100
    assert outcomes["refused"] > outcomes["warned"]  # the managed ClusterTopology is guarded


@pytest.mark.parametrize(
    ("name", "configuration", "allowed"),
    [
        pytest.param("clustertopology.managed-update-by-user", ALL, False, id="the guard"),
        pytest.param("clustertopology.managed-bulk-delete-by-user", ALL, False, id="its deletion"),
        pytest.param("clustertopology.unknown-domain", ALL, True, id="another ClusterTopology"),
        pytest.param("podgroup.mixed-case-name", ALL, True, id="all webhooks"),
        pytest.param(
            "podgroup.mixed-case-name",
            Configuration(enforcement=Enforcement(webhooks=modes(podGroup="warn"))),
            True,
            id="one webhook",
        ),
        pytest.param(
            "podclique.invalid-scope",
            Configuration(enforcement=Enforcement(webhooks=modes(podGroup="warn"))),
            False,
            id="another webhook",
        ),
        pytest.param(
            "podgroup.mixed-case-name",
            Configuration(enforcement=Enforcement(mode="warn", webhooks=modes(podGroup="refuse"))),
            False,
            id="all webhooks but one",
        ),
    ],
)
async def test_which_webhooks_warn(name: str, configuration: Configuration, allowed: bool) -> None:
    response = await Caller(configuration=configuration).ask(path_of(name), load(name))
    assert response["allowed"] is allowed
    assert ("status" in response) is not allowed


async def test_a_wrong_review_and_a_failure_stay_refusals() -> None:
    review = load("podgroup.valid")
    misplaced = await Caller(configuration=ALL).ask("/validate/podcliqueset", review)
    assert (misplaced["allowed"], misplaced["status"]["code"]) == (False, 400)


def test_without_a_trial_no_webhook_only_warns() -> None:
    assert warning_paths(Enforcement()) == []
    assert warning_paths(Enforcement(mode="warn")) == [webhook.path for webhook in WEBHOOKS]
