"""What is said of installed webhook configurations.

Tests `app/doctor/webhook_configurations.py` and `app/doctor/webhooks.py`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.config.schema import Enforcement, WebhookModes
from app.doctor.report import Check
from app.doctor.webhooks import Comparison, check_enforcement, check_webhooks
from app.objects.tokens import new_token
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.paths import with_token

Object = dict[str, Any]
MUTATING, VALIDATING = webhook_configurations(ServiceTarget())
TOKEN = new_token(0)
INSTALL = "Apply the manifests or the chart of this version again, or the output of grove-admission webhooks if you installed that."

UNINTENDED = f"If nobody chose this value (in the chart: webhooks.failurePolicy and webhooks.namespaceSelector), a{INSTALL[1:]}"


def compared(
    installed: Object | None, desired: Object, others: Sequence[Object] = ()
) -> list[Check]:
    return check_webhooks([Comparison(desired, installed, others)])


def stored(configuration: Object) -> Object:
    """As the API server has it: with a caBundle, and defaults where nothing was said."""
    installed = copy.deepcopy(configuration)
    installed["webhooks"] = with_token(installed, TOKEN)
    for webhook in installed["webhooks"]:
        webhook["clientConfig"]["caBundle"] = "UEVN"
        webhook["objectSelector"] = {}
    return installed


HOLD = ", if all matchConditions hold (not-being-deleted)"


def test_as_installed_by_this_version_it_is_said_what_happens_without_a_server() -> None:
    checks = [
        *compared(stored(MUTATING), MUTATING),
        *compared(stored(VALIDATING), VALIDATING),
    ]
    assert {(check.status, check.remedy) for check in checks} == {("ok", "")}
    assert [check.message for check in checks] == [
        "podclique.mutate.grove-admission.grove.io: while this webhook is down, requests to CREATE, UPDATE podcliques.grove.io are rejected, except in grove-system, kube-system, if all matchConditions hold (annotated-or-requests-gpus, not-being-deleted)",
        f"podgang.mutate.grove-admission.grove.io: while this webhook is down, requests to CREATE, UPDATE podgangs.scheduler.grove.io are rejected, except in grove-system, kube-system{HOLD}",
        "pod-binding.mutate.grove-admission.grove.io: while this webhook is down, requests to CREATE pods/binding continue without it",
        "pod.mutate.grove-admission.grove.io: while this webhook is down, requests to CREATE pods continue without it",
        "pod-mnnvl.mutate.grove-admission.grove.io: while this webhook is down, requests to CREATE pods are rejected, except in grove-system, kube-system, if all matchConditions hold (asks-for-mnnvl, in-no-podclique)",
        f"clustertopology.validate.grove-admission.grove.io: while this webhook is down, requests to CREATE, UPDATE, DELETE clustertopologies.grove.io, clustertopologybindings.grove.io are rejected{HOLD[1:-1]}-or-spec-changes)",
        f"podcliqueset.validate.grove-admission.grove.io: while this webhook is down, requests to CREATE, UPDATE podcliquesets.grove.io are rejected, except in grove-system, kube-system{HOLD}",
        f"podgroup.validate.grove-admission.grove.io: while this webhook is down, requests to CREATE, UPDATE podgroups.scheduling.run.ai are rejected, except in grove-system, kube-system{HOLD}",
        "podgang.validate.grove-admission.grove.io: while this webhook is down, requests to DELETE podgangs.scheduler.grove.io continue without it",
        "pod-mnnvl.validate.grove-admission.grove.io: while this webhook is down, requests to CREATE pods are rejected, except in grove-system, kube-system, if all matchConditions hold (asks-for-mnnvl, in-no-podclique)",
    ]


def test_a_path_without_a_token_is_reported_and_one_with_a_token_is_never_shown() -> None:
    without = copy.deepcopy(stored(MUTATING))
    without["webhooks"] = with_token(without, "")
    names = ", ".join(
        f"{name}.mutate.grove-admission.grove.io"
        for name in ("podclique", "podgang", "pod-binding", "pod", "pod-mnnvl")
    )
    assert [check.message for check in compared(without, MUTATING) if check.status != "ok"] == [
        f"no token in the path, so the server cannot tell API servers from other callers: reviews may get a 503 under load, and the leader makes most writes later (5 webhooks: {names})"
    ]
    with_certificates = check_webhooks([Comparison(MUTATING, without)], needs_token=False)
    assert {check.status for check in with_certificates} == {"ok"}

    (remedy,) = {check.remedy for check in compared(without, MUTATING)} - {""}
    assert remedy.startswith("The replicas write paths with a token as soon as all Pods")
    del without["metadata"]["annotations"]
    (remedy,) = {check.remedy for check in compared(without, MUTATING)} - {""}
    assert remedy.startswith("Give the webhook configuration the annotation")

    renamed = stored(MUTATING)
    for webhook in renamed["webhooks"]:
        webhook["clientConfig"]["service"]["name"] = "other"
    shown = str(compared(renamed, MUTATING))
    assert "other" in shown
    assert TOKEN not in shown


def test_a_pod_webhook_that_is_not_called_again_after_that_of_leaderworkersets_is_reported() -> (
    None
):
    changed = stored(MUTATING)
    changed["webhooks"][-1]["reinvocationPolicy"] = "Never"
    (check,) = [check for check in compared(changed, MUTATING) if check.status != "ok"]
    assert check.message == (
        'pod-mnnvl.mutate.grove-admission.grove.io: reinvocationPolicy is "Never"; this version'
        ' installs "IfNeeded"'
    )


def test_one_that_is_not_there_is_a_problem() -> None:
    message = "MutatingWebhookConfiguration grove-admission is not installed, so its webhooks are not called"
    assert compared(None, MUTATING) == [Check("problem", message, INSTALL)]


def without_last(configuration: Object) -> None:
    del configuration["webhooks"][2]


def with_another(configuration: Object) -> None:
    configuration["webhooks"].append(
        {**configuration["webhooks"][1], "name": "old.grove-admission.grove.io"}
    )


def test_webhooks_may_be_missing_or_left_over() -> None:
    installed = stored(VALIDATING)
    without_last(installed)
    with_another(installed)
    rest = [check for check in compared(installed, VALIDATING) if check.status != "ok"]
    what = "ValidatingWebhookConfiguration grove-admission"
    assert rest == [
        Check(
            "problem",
            f"{what} lacks podgroup.validate.grove-admission.grove.io",
            INSTALL,
        ),
        Check(
            "warning",
            f"{what} has webhooks that this version does not serve: old.grove-admission.grove.io",
            INSTALL,
        ),
    ]


def field(key: str, value: Any) -> Callable[[Object], None]:
    def change(webhook: Object) -> None:
        webhook[key] = value

    return change


def service(**fields: Any) -> Callable[[Object], None]:
    def change(webhook: Object) -> None:
        webhook["clientConfig"]["service"] |= fields

    return change


def url(path: str) -> Callable[[Object], None]:
    def change(webhook: Object) -> None:
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:9443{path}", "caBundle": "UEVN"}

    return change


def without(key: str) -> Callable[[Object], None]:
    def change(webhook: Object) -> None:
        del webhook[key]

    return change


def selecting(*expressions: Object) -> Callable[[Object], None]:
    """Somebody added expressions to the namespaceSelector."""

    def change(webhook: Object) -> None:
        webhook["namespaceSelector"]["matchExpressions"] += expressions

    return change


TEAM = {"key": "team", "operator": "In", "values": ["a"]}
OF_AKS = (
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
)
EXCLUDED = '{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["grove-system", "kube-system"]}'


@pytest.mark.parametrize(
    ("change", "differences"),
    [
        pytest.param(
            selecting(TEAM),
            [
                f'namespaceSelector is {{"matchExpressions": [{EXCLUDED}, {{"key": "team", "operator": "In", "values": ["a"]}}]}}; this version installs {{"matchExpressions": [{EXCLUDED}]}}'
            ],
            id="only some namespaces",
        ),
        pytest.param(selecting(*OF_AKS), [], id="the namespaces that AKS excludes"),
        pytest.param(
            selecting({"key": "control-plane", "operator": "DoesNotExist"}),
            [],
            id="the namespaces that AKS once excluded",
        ),
        pytest.param(
            selecting(*OF_AKS, TEAM),
            [
                f'namespaceSelector is {{"matchExpressions": [{EXCLUDED}, {{"key": "team", "operator": "In", "values": ["a"]}}]}}; this version installs {{"matchExpressions": [{EXCLUDED}]}}'
            ],
            id="only some namespaces on AKS",
        ),
        pytest.param(
            field("failurePolicy", "Ignore"),
            ['failurePolicy is "Ignore"; this version installs "Fail"'],
            id="another failure policy",
        ),
        pytest.param(
            field("timeoutSeconds", 30),
            ["timeoutSeconds is 30; this version installs 5"],
            id="a longer time",
        ),
        pytest.param(
            field("objectSelector", {"matchLabels": {"a": "b"}}),
            ['objectSelector is {"matchLabels": {"a": "b"}}; this version installs {}'],
            id="a selector of somebody's",
        ),
        pytest.param(
            without("namespaceSelector"),
            [
                'namespaceSelector is {}; this version installs {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["grove-system", "kube-system"]}]}'
            ],
            id="no namespace excluded",
        ),
        pytest.param(
            field("matchConditions", [{"name": "x", "expression": "false"}]),
            [
                'matchConditions is [{"expression": "false", "name": "x"}]; this version installs [{"expression": "request.operation != \'UPDATE\' || !has(object.metadata.deletionTimestamp)", "name": "not-being-deleted"}]'
            ],
            id="a condition of somebody's",
        ),
        pytest.param(
            service(name="other"),
            ['clientConfig.service has name "other"; this version installs name "grove-admission"'],
            id="another Service",
        ),
        pytest.param(url(f"/{TOKEN}/mutate/podgang"), [], id="a server outside the cluster"),
        pytest.param(
            url(f"/{TOKEN}/v1"),
            ["clientConfig.url has the path /v1; this version serves the path /mutate/podgang"],
            id="another path",
        ),
    ],
)
def test_differences_are_told_one_by_one(
    change: Callable[[Object], None], differences: list[str]
) -> None:
    installed = stored(MUTATING)
    change(installed["webhooks"][1])
    told = [check for check in compared(installed, MUTATING) if check.status != "ok"]
    name = "podgang.mutate.grove-admission.grove.io"
    assert [check.message for check in told] == [
        f"{name}: {difference}" for difference in differences
    ]
    assert [check.status for check in told] == [
        "problem" if difference.startswith("clientConfig") else "warning"
        for difference in differences
    ]


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (field("failurePolicy", "Ignore"), UNINTENDED),
        (field("timeoutSeconds", 30), UNINTENDED),
        (field("objectSelector", {"matchLabels": {"a": "b"}}), UNINTENDED),
        (selecting(TEAM), UNINTENDED),
        (field("namespaceSelector", {"matchLabels": {"team": "a"}}), INSTALL),
        (without("namespaceSelector"), INSTALL),
        (field("sideEffects", "None"), INSTALL),
        (service(name="other"), INSTALL),
    ],
)
def test_manifests_are_applied_again_unless_somebody_chose_the_value(
    change: Callable[[Object], None], remedy: str
) -> None:
    installed = stored(MUTATING)
    change(installed["webhooks"][1])
    (told,) = [check for check in compared(installed, MUTATING) if check.status != "ok"]
    assert told.remedy == remedy


def test_our_webhooks_in_a_second_configuration_are_a_problem() -> None:
    ours = stored(MUTATING)
    old = {**stored(MUTATING), "metadata": {"name": "old-grove-admission"}}
    theirs = {"metadata": {"name": "theirs"}, "webhooks": [{"name": "a.example"}]}
    (told,) = [each for each in compared(ours, MUTATING, [ours, old, theirs]) if each.remedy]
    assert told == Check(
        "problem",
        "MutatingWebhookConfiguration old-grove-admission has our webhooks too. The server writes no caBundle there, so API servers may reject every write for which they call these webhooks",
        "If it belongs to a previous installation, delete it: kubectl delete mutatingwebhookconfiguration old-grove-admission",
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            field("failurePolicy", "Ignore"),
            "podgangs.scheduler.grove.io continue without it",
            id="open",
        ),
        pytest.param(
            without("namespaceSelector"),
            "podgangs.scheduler.grove.io are rejected",
            id="everywhere",
        ),
        pytest.param(
            field("namespaceSelector", {"matchLabels": {"team": "a"}}),
            'are rejected if namespaceSelector {"matchLabels": {"team": "a"}} matches and all matchConditions hold (not-being-deleted)',
            id="in some namespaces",
        ),
        pytest.param(
            field("objectSelector", {"matchLabels": {"a": "b"}}),
            'kube-system, if objectSelector {"matchLabels": {"a": "b"}} matches and all matchConditions',
            id="for some objects",
        ),
        pytest.param(
            field("rules", []), "while this webhook is down, no requests are rejected", id="nothing"
        ),
    ],
)
def test_what_is_refused_without_a_server_is_read_from_what_is_installed(
    change: Callable[[Object], None], told: str
) -> None:
    installed = stored(MUTATING)
    change(installed["webhooks"][1])
    (said,) = [
        check.message
        for check in compared(installed, MUTATING)
        if "podgang" in check.message and check.status == "ok"
    ]
    assert told in said


def test_a_trial_period_is_a_warning() -> None:
    assert check_enforcement(Enforcement()) == []
    enforcement = Enforcement(webhooks=WebhookModes.model_validate({"podGroup": "warn"}))
    (check,) = check_enforcement(enforcement)
    assert check.status == "warning"
    assert (
        check.message
        == "this webhook only warns about invalid objects, which are stored: /validate/podgroup"
    )
    modes = WebhookModes.model_validate({"podGroup": "warn", "podGang": "warn"})
    (check,) = check_enforcement(Enforcement(webhooks=modes))
    assert check.message.startswith("these webhooks only warn about invalid objects")


@pytest.mark.parametrize(
    ("enforcement", "keys"),
    [
        ({"mode": "warn"}, "enforcement.mode"),
        ({"webhooks": {"podGroup": "warn"}}, "enforcement.webhooks.podGroup"),
        (
            {"mode": "warn", "webhooks": {"podGang": "warn", "podGroup": "refuse"}},
            "enforcement.mode and enforcement.webhooks.podGang",
        ),
    ],
)
def test_the_remedy_of_a_trial_period_names_each_setting_that_warns(
    enforcement: Object, keys: str
) -> None:
    (check,) = check_enforcement(Enforcement.model_validate(enforcement))
    assert check.remedy.startswith(f'At the end of the trial period, set {keys} to "refuse".')


def test_a_difference_of_several_webhooks_is_reported_once_and_problems_are_kept_apart() -> None:
    installed = [stored(MUTATING), stored(VALIDATING)]
    for configuration in installed:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["service"] |= {"namespace": "gpu-policy", "port": 8443}
    installed[0]["webhooks"][0]["timeoutSeconds"] = 29
    installed[1]["webhooks"][-1]["clientConfig"]["service"]["path"] = "/x"
    pairs = zip((MUTATING, VALIDATING), installed, strict=True)
    checks = check_webhooks([Comparison(desired, found) for desired, found in pairs])
    names = [webhook["name"] for found in installed for webhook in found["webhooks"]]
    assert [(check.status, check.message) for check in checks if check.status != "ok"] == [
        (
            "problem",
            'clientConfig.service has namespace "gpu-policy", port 8443; this version installs'
            f' namespace "grove-system", port 443 (9 webhooks: {", ".join(names[:-1])})',
        ),
        (
            "problem",
            f'{names[-1]}: clientConfig.service has namespace "gpu-policy", path "/x", port 8443;'
            ' this version installs namespace "grove-system", path "/validate/pod-mnnvl", port 443',
        ),
        ("warning", f"{names[0]}: timeoutSeconds is 29; this version installs 10"),
    ]
