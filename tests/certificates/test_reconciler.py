"""One Secret, several replicas, two webhook configurations; whatever happens, in whatever order."""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from app.certificates.certificate import make_ca, make_leaf, split_bundle
from app.certificates.reconciler import LOOK_SECONDS, RETRY_SECONDS
from app.certificates.rotation import Terms, due, new_holdings
from app.certificates.secret import Holdings, written_holdings
from app.kube.api import ClusterError, Conflict, Object, ObjectRef, Rejected, Unavailable
from app.objects.resource import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS, Resource
from tests.certificates.rotation import (
    DAY,
    LEAF_RENEWAL,
    NAME,
    NAMES,
    START,
    TERMS,
    WANTED,
    Cluster,
    fingerprint,
    pass_by,
    rotate_ca,
    running,
    settle,
    shown,
)
from tests.kube.memory.client import MemoryClient


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_the_first_replica_makes_everything_and_shows_it(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    holdings = cluster.holdings()
    assert cluster.is_published()
    assert cluster.accepts(replica)
    assert (shown(replica), replica.healthy(), replica.not_after) == (
        fingerprint(holdings),
        True,
        START + TERMS.leaf_life,
    )
    assert (replica.ca_not_after, replica.ca_bundle()) == (
        START + TERMS.ca_life,
        holdings.bundle_pem,
    )
    assert (replica.rotations, replica.failures, replica.last_error) == (Counter(issue=1), 0, None)
    secret = cluster.secret()
    assert (secret["type"], secret["metadata"]["labels"]) == (
        "kubernetes.io/tls",
        {"app.kubernetes.io/managed-by": "grove-admission"},
    )


async def test_webhooks_of_others_and_all_other_fields_stay_as_they_are(cluster: Cluster) -> None:
    before = list(cluster.webhooks())
    await running(cluster)
    for was, now in zip(before, cluster.webhooks(), strict=True):
        config = {key: value for key, value in now["clientConfig"].items() if key != "caBundle"}
        kept = config if was["name"] != "c.theirs" else now["clientConfig"]
        assert {**now, "clientConfig": kept} == was


async def test_a_look_at_what_is_in_step_writes_nothing(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    before = cluster.client.writes()
    # only then has the CA been trusted for long enough
    assert await settle(replica) == WANTED.settle_seconds
    cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds))
    assert await settle(replica) == LOOK_SECONDS
    assert cluster.client.writes() == before


async def test_of_two_replicas_that_start_at_once_one_makes_the_secret_and_both_use_it(
    cluster: Cluster,
) -> None:
    first = cluster.replica()
    second = cluster.replica()
    await asyncio.gather(settle(first), settle(second))
    assert first.rotations + second.rotations == Counter(issue=1)
    assert shown(first) == shown(second) == fingerprint(cluster.holdings())
    assert cluster.is_published()


async def test_of_two_replicas_that_renew_at_once_one_wins(cluster: Cluster) -> None:
    first, second = await running(cluster, 2)
    cluster.clock.pass_by(LEAF_RENEWAL)
    await asyncio.gather(settle(first), settle(second))
    assert (first.rotations + second.rotations)["leaf"] == 1
    assert shown(first) == shown(second) == fingerprint(cluster.holdings())


async def test_a_leaf_is_renewed_without_a_change_of_trust(cluster: Cluster) -> None:
    replicas = await running(cluster, 2)
    before = cluster.holdings()
    cluster.clock.pass_by(LEAF_RENEWAL - DAY)
    assert await settle(replicas[0]) == LOOK_SECONDS
    await pass_by(cluster, DAY, *replicas)
    after = cluster.holdings()
    assert (after.bundle, after.leaf == before.leaf) == (before.bundle, False)
    assert [shown(replica) for replica in replicas] == [fingerprint(after)] * 2


async def test_a_new_ca_is_published_then_trusted_for_a_while_and_only_then_signs(
    cluster: Cluster,
) -> None:
    first, second = await running(cluster, 2)
    await rotate_ca(cluster, first, second)
    announced = cluster.holdings()
    assert len(announced.bundle) == 2
    assert cluster.is_published()
    assert shown(first) == fingerprint(announced)
    assert announced.issuer() == announced.retired[0]
    cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds - 1))
    assert await settle(first) == 1
    assert cluster.holdings() == announced
    await pass_by(cluster, timedelta(seconds=1), first)
    adopted = cluster.holdings()
    assert (adopted.bundle, adopted.issuer()) == (announced.bundle, announced.ca.cert_pem)
    assert shown(first) == fingerprint(adopted)
    assert cluster.accepts(first)
    assert cluster.accepts(second)  # it has not looked since


async def test_a_replica_that_lags_waits_until_it_has_seen_the_trust_for_long_enough(
    cluster: Cluster,
) -> None:
    first, second = await running(cluster, 2)
    await rotate_ca(cluster, first)
    await settle(second)
    await pass_by(cluster, timedelta(seconds=WANTED.settle_seconds), first)
    lagging = cluster.replica()
    assert await settle(lagging) == WANTED.settle_seconds
    assert shown(lagging) == fingerprint(cluster.holdings())  # it has nothing else to show
    await settle(second)
    assert shown(second) == fingerprint(cluster.holdings())


@pytest.mark.untraced
async def test_the_old_ca_goes_when_it_has_expired(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    first_ca = cluster.holdings().ca.cert_pem
    await rotate_ca(cluster, replica)
    await pass_by(cluster, timedelta(seconds=WANTED.settle_seconds), replica)
    while cluster.clock.now < START + TERMS.ca_life + TERMS.skew:
        assert first_ca in cluster.holdings().bundle
        await pass_by(cluster, DAY, replica)
    assert first_ca not in cluster.holdings().bundle
    assert cluster.is_published()
    assert cluster.accepts(replica)


@pytest.mark.parametrize(
    "resource", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=lambda resource: resource.kind
)
@pytest.mark.parametrize(
    "bundle",
    [
        "",
        "Z2FyYmFnZQ==",
        "%%%",
        base64.b64encode(make_ca("evil", START, START + DAY).cert_pem).decode(),
    ],
    ids=["empty", "no certificate", "not base64", "another CA"],
)
async def test_a_ca_bundle_changed_by_somebody_is_written_again(
    cluster: Cluster, resource: Resource, bundle: str
) -> None:
    (replica,) = await running(cluster)
    before = cluster.holdings()
    await cluster.tamper(resource, bundle)
    await settle(replica)
    assert cluster.is_published()
    assert cluster.holdings() == before


async def test_somebody_who_keeps_changing_it_is_reported_and_not_fought_for_ever(
    cluster: Cluster,
) -> None:
    (replica,) = await running(cluster)
    for _ in range(10):
        await cluster.tamper(MUTATING_WEBHOOKS, "")
        await settle(replica)
    assert (
        len([call for call in cluster.client.writes() if call.resource == MUTATING_WEBHOOKS])
        == 10 + 5
    )
    assert (
        replica.last_error
        == "another writer keeps changing the caBundle of MutatingWebhookConfiguration grove-admission. Find and stop that writer: kubectl get mutatingwebhookconfigurations.admissionregistration.k8s.io grove-admission -o jsonpath='{.metadata.managedFields[*].manager}'"
    )
    cluster.clock.pass_by(timedelta(seconds=10))
    await settle(replica)
    assert cluster.is_published()
    assert replica.last_error is None


async def test_a_change_of_trust_between_the_steps_begins_the_wait_anew(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    await rotate_ca(cluster, replica)
    announced = cluster.holdings()
    cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds - 1))
    await cluster.tamper(VALIDATING_WEBHOOKS, base64.b64encode(announced.retired[0]).decode())
    assert await settle(replica) == WANTED.settle_seconds
    assert cluster.holdings() == announced


async def test_what_cert_manager_injects_is_left_alone_and_said(cluster: Cluster) -> None:
    annotations = {
        "metadata": {"annotations": {"cert-manager.io/inject-ca-from": "grove-system/ours"}}
    }
    await cluster.client.patch(
        ObjectRef(MUTATING_WEBHOOKS, WANTED.webhook_configurations), annotations
    )
    replica = cluster.replica()
    before = cluster.client.objects(MUTATING_WEBHOOKS)
    assert await settle(replica) == RETRY_SECONDS
    assert (
        replica.last_error
        == "MutatingWebhookConfiguration grove-admission has the annotation cert-manager.io/inject-ca-from, so cert-manager manages its caBundles: run kubectl annotate mutatingwebhookconfigurations grove-admission cert-manager.io/inject-ca-from-, or set certificates.mode to files"
    )
    assert cluster.client.objects(MUTATING_WEBHOOKS) == before
    assert not replica.healthy()


async def test_without_configurations_nobody_has_to_trust_anything(cluster: Cluster) -> None:
    stored = [
        *cluster.client.objects(MUTATING_WEBHOOKS),
        *cluster.client.objects(VALIDATING_WEBHOOKS),
    ]
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await cluster.client.delete(ObjectRef(resource, WANTED.webhook_configurations))
    (replica,) = await running(cluster)
    assert shown(replica) == fingerprint(cluster.holdings())
    cluster.client.load(stored)
    await settle(replica)
    assert cluster.is_published()


async def test_a_secret_that_was_deleted_is_restored_as_it_was(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    before = cluster.holdings()
    await cluster.client.delete(ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace))
    await settle(replica)
    assert (cluster.holdings(), replica.rotations["restore"]) == (before, 1)
    assert replica.failures == 1


async def test_after_a_theft_the_steps_of_the_guide_leave_no_trust_in_the_old_ca(
    cluster: Cluster,
) -> None:
    """All replicas have stopped. The configurations that are applied again have no caBundle."""
    applied = [
        *cluster.client.objects(MUTATING_WEBHOOKS),
        *cluster.client.objects(VALIDATING_WEBHOOKS),
    ]
    await running(cluster)
    stolen = cluster.holdings()
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await cluster.client.delete(ObjectRef(resource, WANTED.webhook_configurations))
    await cluster.client.delete(ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace))
    (replica,) = await running(cluster)
    cluster.client.load(applied)
    await settle(replica)
    assert stolen.ca.cert_pem not in split_bundle(cluster.holdings().bundle_pem)
    assert (cluster.is_published(), cluster.accepts(replica)) == (True, True)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"tls.key": None}, id="a key is missing"),
        pytest.param({"tls.crt": "Z2FyYmFnZQ=="}, id="garbage for a certificate"),
        pytest.param({"ca.crt": "%"}, id="not base64"),
        pytest.param(dict.fromkeys(("tls.crt", "tls.key", "ca.crt", "ca.key")), id="emptied"),
        pytest.param(
            {"tls.key": written_holdings(new_holdings(["x"], START, TERMS))["tls.key"]},
            id="a mismatched pair",
        ),
    ],
)
async def test_garbage_in_the_secret_never_serves_and_is_replaced(
    cluster: Cluster, data: Object
) -> None:
    (replica,) = await running(cluster)
    before = cluster.holdings()
    serving = shown(replica)
    await cluster.client.patch(
        ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace), {"data": data}
    )
    assert await replica.reconcile(("", "")) == 0
    assert shown(replica) == serving
    assert str(replica.last_error).startswith("Secret grove-system/grove-admission-certificates ")
    await settle(replica)
    assert (cluster.holdings(), shown(replica), replica.last_error) == (before, serving, None)
    assert replica.failures == 1


async def test_garbage_that_nobody_remembers_is_replaced_by_something_new_that_still_trusts_the_old(
    cluster: Cluster,
) -> None:
    (old,) = await running(cluster)
    cluster.remember()
    before = cluster.holdings()
    await cluster.client.patch(
        ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace),
        {"data": {"tls.crt": "Z2FyYmFnZQ=="}},
    )
    new = cluster.replica()
    await settle(new)
    assert cluster.holdings().retired == before.bundle
    assert shown(new) == fingerprint(cluster.holdings())
    assert cluster.accepts(new)
    assert cluster.accepts(old)


async def test_a_sound_secret_put_there_by_somebody_is_used_once_it_is_trusted(
    cluster: Cluster,
) -> None:
    (replica,) = await running(cluster)
    before = cluster.holdings()
    cluster.remember()
    await cluster.put(new_holdings(NAMES, START, TERMS))
    await settle(replica)
    assert cluster.holdings().retired == before.bundle
    assert shown(replica) == fingerprint(before)
    assert cluster.accepts(replica)
    cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds))
    await settle(replica)
    assert shown(replica) == fingerprint(cluster.holdings())
    assert cluster.accepts(replica)


async def test_a_backup_with_an_expired_certificate_is_renewed_before_it_is_shown(
    cluster: Cluster,
) -> None:
    backup = new_holdings(NAMES, START - TERMS.leaf_life, TERMS)
    (replica,) = await running(cluster)
    cluster.remember()
    await cluster.put(backup)
    for _ in range(2):
        cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds))
        await settle(replica)
        assert cluster.accepts(replica)
    assert replica.rotations == Counter(issue=1, trust=1, leaf=1)
    assert shown(replica) == fingerprint(cluster.holdings()) != fingerprint(backup)


async def test_an_expired_certificate_that_may_not_be_replaced_is_never_shown(
    cluster: Cluster,
) -> None:
    (replica,) = await running(cluster)
    before = cluster.holdings()
    serving = shown(replica)
    expired = make_leaf(before.ca, [NAME], START - 2 * DAY, START - DAY)
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await cluster.client.patch(ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace), labels)
    await cluster.put(Holdings(before.ca, expired))
    cluster.clock.pass_by(timedelta(seconds=WANTED.settle_seconds))
    assert await settle(replica) == RETRY_SECONDS
    assert (shown(replica), cluster.holdings().leaf) == (serving, expired)
    assert "was not created by grove-admission, so it is not changed" in str(replica.last_error)


async def test_what_a_fast_clock_has_made_is_not_shown_before_it_is_valid(cluster: Cluster) -> None:
    """The clocks of two nodes differ, and API servers go by the right one: here it is made again."""
    (replica,) = await running(cluster)
    before = cluster.holdings()
    serving = shown(replica)
    now = cluster.clock.now
    early = make_leaf(before.ca, [NAME], now + timedelta(hours=1), now + 60 * DAY)
    await cluster.put(replace(before, leaf=early))
    assert await replica.reconcile(("", "")) == 0.0
    assert "is not valid before 2026-01-01T01:00:00" in str(replica.last_error)
    assert (shown(replica), replica.healthy()) == (serving, True)
    await pass_by(cluster, timedelta(seconds=WANTED.settle_seconds), replica)
    assert cluster.holdings().leaf not in (early, before.leaf)
    assert shown(replica) == fingerprint(cluster.holdings())


@pytest.mark.parametrize("is_new", [False, True], ids=["goes on", "starts again"])
@pytest.mark.parametrize("jump", [70 * DAY, 300 * DAY, 400 * DAY], ids=["leaf", "CA", "both"])
async def test_what_a_clock_has_made_that_was_wrong_for_a_while_is_made_again(
    cluster: Cluster, jump: timedelta, *, is_new: bool
) -> None:
    (replica,) = await running(cluster)
    cluster.clock.now += jump
    await pass_by(cluster, timedelta(seconds=WANTED.settle_seconds), replica)
    cluster.clock.now -= jump
    assert not cluster.accepts(replica)

    if is_new:
        (replica,) = await running(cluster)
    await settle(replica)
    await pass_by(cluster, timedelta(seconds=WANTED.settle_seconds), replica)
    assert (cluster.accepts(replica), replica.last_error) == (True, None)
    assert shown(replica) == fingerprint(cluster.holdings())


@pytest.mark.parametrize(
    "labels", [{}, {"app.kubernetes.io/managed-by": "Helm"}], ids=["no label", "another's"]
)
async def test_a_secret_of_somebody_else_is_not_written(
    cluster: Cluster, labels: dict[str, str]
) -> None:
    data = {"tls.crt": "VEhFSVJT", "tls.key": "VEhFSVJT"}
    metadata = {"name": WANTED.secret_name, "namespace": WANTED.namespace, "labels": labels}
    cluster.client.load(
        [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}]
    )
    replica = cluster.replica()
    assert await settle(replica) == RETRY_SECONDS
    assert cluster.secret()["data"] == data
    # without --overwrite, the command fails if the label has another value
    command = (
        f"kubectl label --overwrite secret {WANTED.secret_name} -n {WANTED.namespace}"
        " app.kubernetes.io/managed-by=grove-admission."
    )
    assert "was not created by grove-admission, so it is not changed" in str(replica.last_error)
    assert command in str(replica.last_error)
    assert cluster.client.writes() == []


async def test_an_empty_secret_is_filled(cluster: Cluster) -> None:
    metadata = {"name": WANTED.secret_name, "namespace": WANTED.namespace}
    cluster.client.load(
        [{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}]
    )
    (replica,) = await running(cluster)
    assert shown(replica) == fingerprint(cluster.holdings())


async def test_all_certificates_have_expired_while_nothing_ran(cluster: Cluster) -> None:
    await running(cluster)
    cluster.clock.pass_by(2 * TERMS.ca_life)
    (replica,) = await running(cluster)
    assert (len(cluster.holdings().bundle), replica.rotations) == (1, Counter(issue=1))
    assert cluster.accepts(replica)


async def test_a_replica_that_may_not_write_configurations_still_renews_what_is_trusted(
    cluster: Cluster,
) -> None:
    (replica,) = await running(cluster)
    cluster.clock.pass_by(LEAF_RENEWAL)
    await cluster.tamper(
        MUTATING_WEBHOOKS, base64.b64encode(cluster.holdings().bundle_pem + b"# other\n").decode()
    )
    cluster.client.fail_next("patch", MUTATING_WEBHOOKS, Rejected("forbidden", code=403), times=99)
    assert await replica.reconcile(("", "")) == 0
    with pytest.raises(Rejected):
        await replica.reconcile(("", ""))
    assert shown(replica) == fingerprint(cluster.holdings())
    assert replica.rotations["leaf"] == 1
    assert replica.last_error == "forbidden"


async def test_an_api_server_that_is_down_changes_nothing(cluster: Cluster) -> None:
    (replica,) = await running(cluster)
    serving = shown(replica)
    cluster.client.fail_next("get", None, Unavailable("down"))
    with pytest.raises(Unavailable):
        await replica.reconcile(("", ""))
    assert (shown(replica), replica.healthy(), replica.last_error, replica.failures) == (
        serving,
        True,
        "down",
        1,
    )


class Cut(Exception):
    """The process ends here."""


class Mortal:
    """A client whose process dies at the n-th write: before it, or after it with the answer lost."""

    def __init__(self, client: MemoryClient, writes: int, after: bool) -> None:
        self._client = client
        self._left = writes
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return self._dying(method) if name in ("create", "patch") else method

    def _dying(self, write: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                if self._after:
                    await write(*arguments, **options)
                raise Cut
            return await write(*arguments, **options)

        return call


@pytest.mark.untraced
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_a_crash_at_any_write_leaves_no_moment_without_trust(
    cluster: Cluster, writes: int, after: bool
) -> None:
    """One replica stays and only watches.

    The other dies at its n-th write in a rotation of the CA, and is followed by a new one: at every
    moment clients accept what both show.
    """
    (staying,) = await running(cluster)
    for _ in range(4):
        await pass_by(cluster, LEAF_RENEWAL, staying)
    dying = cluster.replica(Mortal(cluster.client, writes, after))
    deaths = 0
    for _ in range(6):
        try:
            await settle(dying)
        except Cut:
            deaths += 1
            dying = cluster.replica()
            await settle(dying)
        assert cluster.accepts(dying)
        assert cluster.accepts(staying)
        cluster.clock.pass_by(
            timedelta(seconds=20) if len(cluster.holdings().bundle) == 2 else 4 * DAY
        )
    await settle(staying)
    assert cluster.accepts(staying)
    assert deaths == (1 if writes <= 4 else 0)
    assert len(cluster.holdings().bundle) == 2
    assert cluster.holdings().issuer() == cluster.holdings().ca.cert_pem


@pytest.mark.parametrize(
    "error", [Unavailable("lost"), Conflict("changed", code=409)], ids=["lost", "conflict"]
)
@pytest.mark.parametrize("after", [False, True], ids=["refused", "written, the answer lost"])
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_a_write_that_fails_is_made_good_by_the_next_look(
    cluster: Cluster, verb: str, after: bool, error: ClusterError
) -> None:
    replica = cluster.replica()
    cluster.client.fail_next(verb, None, error, after_effect=after)
    if verb == "patch":
        await replica.reconcile(("", ""))
    with pytest.raises(type(error)):
        await replica.reconcile(("", ""))
    await settle(replica)
    assert (cluster.is_published(), cluster.accepts(replica)) == (True, True)
    assert len(split_bundle(cluster.holdings().bundle_pem)) == 1
    assert due(cluster.holdings(), NAMES, cluster.clock.now, TERMS) is None


async def test_a_bundle_is_never_replaced_by_an_older_one(cluster: Cluster) -> None:
    """A replica that read everything before a CA was announced, and writes after."""
    (first,) = await running(cluster)

    class Slow:
        """Lets the other replica rotate between the reads and the write."""

        def __getattr__(self, name: str) -> Any:
            return self._patch if name == "patch" else getattr(cluster.client, name)

        async def _patch(self, *arguments: Any, **options: Any) -> Any:
            if len(cluster.holdings().bundle) == 1:
                await rotate_ca(cluster, first)
            return await cluster.client.patch(*arguments, **options)

    slow = cluster.replica(Slow())
    await cluster.tamper(MUTATING_WEBHOOKS, "")
    with pytest.raises(Conflict):
        await slow.reconcile(("", ""))
    assert len(cluster.holdings().bundle) == 2
    assert cluster.is_published()


def test_short_lives_can_be_asked_for() -> None:
    short = Terms(timedelta(seconds=12), timedelta(seconds=4))
    holdings = new_holdings(NAMES, START, short)
    assert due(holdings, NAMES, START + timedelta(seconds=3), short) == "leaf"
