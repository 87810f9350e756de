"""A review gets the same answer in every version of its kind, also in one that does not exist.

The versions of everything in it change: of the request, of its objects, of their owners, and of
what the cluster has.
"""

import copy
from typing import Any

import pytest

from app.objects.resource import Resource
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.registry import WEBHOOKS, Webhook
from tests import reviews
from tests.reviews import OPERATORS, Caller, load, names, operator_cluster, operator_names
from tests.webhooks.test_recorded import BY_OPERATOR, EXPECTED, judged

pytestmark = pytest.mark.untraced

NEIGHBOURS = (
    "grove.io",
    "scheduler.grove.io",
    "scheduling.run.ai",
    "kai.scheduler",
    "resource.nvidia.com",
)
VERSIONS = ["v1alpha1", "v1beta1", "v9"]


def in_version(value: Any, version: str) -> Any:
    """Return a part of a review with `version` in place of the version of each neighbour's kind."""
    if isinstance(value, list):
        return [in_version(item, version) for item in value]
    if not isinstance(value, dict):
        return value

    changed = {key: in_version(item, version) for key, item in value.items()}
    if changed.get("group") in NEIGHBOURS and "version" in changed:
        changed["version"] = version
    group, _, _ = str(changed.get("apiVersion", "")).rpartition("/")
    if group in NEIGHBOURS:
        changed["apiVersion"] = f"{group}/{version}"
    return changed


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of everything that tests load of the recordings."""
    chosen = str(request.param)
    monkeypatch.setattr(reviews, "load", lambda name: in_version(load(name), chosen))
    monkeypatch.setattr(reviews, "NVL", in_version(copy.deepcopy(reviews.NVL), chosen))
    return chosen


async def answer(name: str, version: str, caller: Caller) -> dict[str, Any]:
    return await judged(name, caller, in_version(load(name), version))


@pytest.mark.parametrize("name", names())
async def test_a_recorded_request_gets_its_verdict_in_any_version(name: str, version: str) -> None:
    assert await answer(name, version, Caller()) == EXPECTED[name]


OF_OPERATORS = [(operator, name) for operator in OPERATORS for name in operator_names(operator)]


@pytest.mark.parametrize(("operator", "name"), OF_OPERATORS, ids=[name for _, name in OF_OPERATORS])
async def test_a_request_of_an_operator_gets_its_verdict_in_any_version(
    operator: str, name: str, version: str
) -> None:
    caller = Caller(operator_cluster(operator))
    assert await answer(name, version, caller) == BY_OPERATOR[operator][name]


def test_every_kind_of_a_webhook_is_among_the_changed_ones() -> None:
    """A webhook for the kind of another neighbour needs its group above."""
    groups = {webhook.resource.group for webhook in WEBHOOKS}
    assert groups <= {*NEIGHBOURS, ""}
    changed = {
        load(name)["request"]["kind"]["kind"]
        for name in [*names(), *(name for _, name in OF_OPERATORS)]
        if in_version(load(name), "v9") != load(name)
    }
    assert {w.resource.kind for w in WEBHOOKS if w.resource.group} <= changed


@pytest.mark.parametrize("webhook", WEBHOOKS, ids=lambda webhook: webhook.path)
def test_api_servers_ask_about_every_version_of_a_neighbours_kind(webhook: Webhook) -> None:
    """A kind of Kubernetes is converted to the version of the rule by the API server."""
    entries = {
        entry["name"]: entry
        for configuration in webhook_configurations(ServiceTarget())
        for entry in configuration["webhooks"]
    }
    (rule,) = entries[webhook.name]["rules"]
    assert rule["apiVersions"] == (["*"] if webhook.resource.group else ["v1"])


@pytest.mark.parametrize(
    ("versions", "newest", "may_follow", "may_not"),
    [
        (("v1beta1", "v1alpha1"), "v1beta1", ("v1alpha2", "v1beta2", "v1", "v2alpha1"), ("edge",)),
        (("v1alpha1", "v1beta1"), "v1beta1", ("v1", "v10"), ("v0", "V1", "v1beta", "")),
        (("v1", "v1beta2", "v1beta1"), "v1", ("v2",), ("v1alpha3", "v1alpha1")),
        (("v1beta1", "v1alpha2", "v1"), "v1", ("v2beta1",), ("v1alpha1",)),
    ],
)
def test_which_versions_are_judged_as_the_newest_known_one(
    versions: tuple[str, ...], newest: str, may_follow: tuple[str, ...], may_not: tuple[str, ...]
) -> None:
    resource = Resource("example.com", "things", "Thing", True, versions)
    assert resource.newest == newest
    assert [each for each in may_follow if not resource.may_follow(each)] == []
    assert [each for each in may_not if resource.may_follow(each)] == []
