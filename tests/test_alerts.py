"""The alerts of the overlay `monitoring`, evaluated by Prometheus: each with series that make it
fire, and with some that just don't.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.rendered import Object, of_kind, rendered

pytestmark = pytest.mark.untraced

Series = Mapping[str, str]

MINUTES = 40
QUIET = "a quiet installation"
WEBHOOK = "pod-binding.mutate.grove-admission.grove.io"
REJECTED = "apiserver_admission_webhook_rejection_count"
OPEN = "apiserver_admission_webhook_fail_open_count"
REQUESTS = "grove_admission_requests_total"
LEADER = "grove_admission_leader"
BUCKET = "grove_admission_request_duration_seconds_bucket"


def each_minute(value: float) -> str:
    """Return a series with one value."""
    return f"{value:g}x{MINUTES}"


def rising(step: float) -> str:
    """Return a counter that rises by `step` each minute."""
    return f"0+{step:g}x{MINUTES}"


def requests(path: str, code: str) -> str:
    return f'{REQUESTS}{{path="{path}", code="{code}"}}'


def took(bound: str) -> str:
    return f'{BUCKET}{{path="/validate/podgroup", le="{bound}"}}'


def replica(name: str, pod: str = "a") -> str:
    return f'{name}{{namespace="grove-system", pod="{pod}"}}'


CALLING = f'{REJECTED}{{name="{WEBHOOK}", error_type="calling_webhook_error"}}'
REFUSING = f'{REJECTED}{{name="{WEBHOOK}", error_type="no_error"}}'
EXPIRY = "grove_admission_certificate_expiry_timestamp_seconds"
CA_EXPIRY = "grove_admission_certificate_ca_expiry_timestamp_seconds"
CLIENT_CA_EXPIRY = "grove_admission_client_ca_expiry_timestamp_seconds"
WAITING = "grove_admission_waiting_oldest_seconds"
DAY = 86_400

ALERTS: dict[str, tuple[Series, Series]] = {
    "GroveAdmissionDown": (
        {replica("grove_admission_ready"): each_minute(0)},
        {
            replica("grove_admission_ready"): each_minute(0),
            replica("grove_admission_ready", "b"): each_minute(1),
        },
    ),
    "GroveAdmissionUnreachable": ({CALLING: rising(1)}, {REFUSING: rising(1)}),
    "GroveAdmissionPassedBy": (
        {f'{OPEN}{{name="{WEBHOOK}"}}': rising(1)},
        {f'{OPEN}{{name="other.example.com"}}': rising(1)},
    ),
    "GroveAdmissionFailing": (
        {requests("/validate/podgroup", "500"): rising(1)},
        {requests("/validate/podgroup", "500"): rising(0.1)},
    ),
    "GroveAdmissionWaiting": (
        {
            requests("/mutate/podgang", "200"): rising(3),
            requests("/mutate/podgang", "503"): rising(1),
        },
        {
            requests("/mutate/podgang", "200"): rising(5),
            requests("/mutate/podgang", "503"): rising(1),
        },
    ),
    "GroveAdmissionSlow": (
        {took("1"): rising(98), took("5"): rising(100), took("+Inf"): rising(100)},
        {took("1"): rising(100), took("5"): rising(100), took("+Inf"): rising(100)},
    ),
    "GroveAdmissionCertificateExpires": (
        {replica(EXPIRY): each_minute(2 * DAY)},
        {replica(EXPIRY): each_minute(4 * DAY)},
    ),
    "GroveAdmissionCAExpires": (
        {replica(CA_EXPIRY): each_minute(6 * DAY)},
        {replica(CA_EXPIRY): each_minute(8 * DAY)},
    ),
    "GroveAdmissionClientCAExpires": (
        {replica(CLIENT_CA_EXPIRY): each_minute(13 * DAY)},
        {replica(CLIENT_CA_EXPIRY): each_minute(15 * DAY)},
    ),
    "GroveAdmissionCertificateFailures": (
        {replica("grove_admission_certificate_failures_total"): rising(1)},
        {replica("grove_admission_certificate_failures_total"): rising(0.2)},
    ),
    "GroveAdmissionCacheStale": (
        {'grove_admission_cache_age_seconds{resource="nodes"}': each_minute(601)},
        {'grove_admission_cache_age_seconds{resource="nodes"}': each_minute(600)},
    ),
    "GroveAdmissionClaimsMissing": (
        {replica("grove_admission_mnnvl_claims_missing"): each_minute(1)},
        {replica("grove_admission_mnnvl_claims_missing"): each_minute(0)},
    ),
    "GroveAdmissionNoLeader": (
        {replica(LEADER): each_minute(0), replica(LEADER, "b"): each_minute(0)},
        {replica(LEADER): each_minute(0), replica(LEADER, "b"): each_minute(1)},
    ),
    "GroveAdmissionTwoLeaders": (
        {replica(LEADER): each_minute(1), replica(LEADER, "b"): each_minute(1)},
        {replica(LEADER): each_minute(1), replica(LEADER, "b"): each_minute(0)},
    ),
    "GroveAdmissionReconcileErrors": (
        {'grove_admission_reconcile_failing{reconciler="podgang"}': each_minute(1)},
        {'grove_admission_reconcile_failing{reconciler="podgang"}': each_minute(0)},
    ),
    "GroveAdmissionGangsWait": (
        {f'{WAITING}{{namespace="grove-system", who="platform"}}': rising(60)},
        {
            f'{WAITING}{{namespace="grove-system", who="wait"}}': rising(60),
            f'{WAITING}{{namespace="grove-system", who="you"}}': each_minute(1800),
        },
    ),
    "GroveAdmissionFight": (
        {'grove_admission_rewrites_total{reconciler="podgang"}': rising(1)},
        {'grove_admission_rewrites_total{reconciler="podgang"}': each_minute(7)},
    ),
}
"""By alert, series that make it fire within 40 minutes, and series that don't."""


def rules() -> Object:
    spec = of_kind(rendered("overlays/monitoring"), "PrometheusRule")["spec"]
    return dict(spec)


def firing(folder: Path, cases: Mapping[str, Series]) -> dict[str, set[str]]:
    """Return the alerts that fire after MINUTES in each case, in the words of promtool.

    promtool compares alerts with those that a test expects. The test expects none, so that its
    message names each that fires.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of the package prometheus")

    group = rules()
    names = [rule["alert"] for rule in group["groups"][0]["rules"]]
    expected = [{"eval_time": f"{MINUTES}m", "alertname": name, "exp_alerts": []} for name in names]
    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": case,
                "interval": "1m",
                "input_series": [{"series": key, "values": value} for key, value in series.items()],
                "alert_rule_test": expected,
            }
            for case, series in cases.items()
        ],
    }
    (folder / "rules.yaml").write_text(yaml.safe_dump(group))
    (folder / "tests.yaml").write_text(yaml.safe_dump(tests))
    ended = subprocess.run(
        [promtool, "test", "rules", str(folder / "tests.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0 or "alertname:" in output, output
    fired: dict[str, set[str]] = {case: set() for case in cases}
    for case, alert in re.findall(r"name: (.+),\n +alertname: (\w+),", output):
        fired[case].add(alert)
    return fired


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The alerts that fire in each case, of one run of promtool."""
    cases = {QUIET: quiet()}
    for name, (fires, misses) in ALERTS.items():
        cases |= {f"{name} should fire": fires, f"{name} should not fire": misses}
    return firing(tmp_path_factory.mktemp("alerts"), cases)


def quiet() -> Series:
    return {
        replica("grove_admission_ready"): each_minute(1),
        replica(LEADER): each_minute(1),
        replica(EXPIRY): each_minute(60 * DAY),
        replica(CA_EXPIRY): each_minute(300 * DAY),
        requests("/validate/podgroup", "200"): rising(100),
        requests("/validate/podgroup", "422"): rising(10),
    }


def test_each_alert_has_a_case() -> None:
    assert ALERTS.keys() == {rule["alert"] for rule in rules()["groups"][0]["rules"]}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_if_it_should(name: str, fired: dict[str, set[str]]) -> None:
    assert name in fired[f"{name} should fire"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_does_not_fire_just_before(name: str, fired: dict[str, set[str]]) -> None:
    assert name not in fired[f"{name} should not fire"]


def test_a_quiet_installation_gives_no_alert(fired: dict[str, set[str]]) -> None:
    assert fired[QUIET] == set()
