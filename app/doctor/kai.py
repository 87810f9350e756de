"""Check KAI: permissions of its binder, limits of queues, order of gangs, and their eviction.

The binder must be allowed to allocate the ResourceClaims of the Pods that it binds. Since
Kubernetes 1.36, writing the allocation of a claim needs a permission on the synthetic subresource
`resourceclaims/binding` in addition to `resourceclaims/status`.

Source: https://github.com/kubernetes/kubernetes/issues/138149, and
https://github.com/kai-scheduler/KAI-Scheduler/pull/1372, which grants it to the binder. KAI's
scheduler itself only reads claims. KAI's tags 0.12.19 and 0.14.1 are the first with that change.

KAI evicts a gang that has had fewer pods than its minimum for a certain time. A SchedulingShard may
set this time as an argument of its scheduler, which does not start if the value is not a valid Go
duration: https://github.com/ai-dynamo/dynamo/pull/14722.
"""

import shlex
from collections.abc import Sequence

from app.base.groups import by_key
from app.base.json import to_json
from app.doctor.apis import Read, version_number
from app.doctor.permissions import Need, is_allowed
from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.kai.queue import read_queue
from app.facts.kai.shard import read_shard
from app.facts.kinds import POD_GANG, QUEUE, SCHEDULING_SHARD
from app.kube.api import Client, NotFound, ObjectRef, Selection, every, find
from app.objects.fields import listed
from app.objects.resource import CLUSTER_ROLE_BINDING
from app.objects.shape import JsonMap, key_of, map_at, maps_at, text_at
from app.objects.time import signed_duration
from app.rules.queue_warnings import unset_limits

_MOST_QUEUES = 5
_MOST_SHOWN = 5
_ROLE = "kai-binder"
_SINCE = (1, 36)
_NEED = Need("resource.k8s.io", "resourceclaims/binding", ("update", "patch"), "binding")
_REMEDY = (
    "Upgrade KAI to 0.12.19, 0.14.1, or 0.15 or later (no release of 0.13 has this permission). Or"
    f" run kubectl edit clusterrole {_ROLE}, and add this rule: {{apiGroups: [resource.k8s.io],"
    " resources: [resourceclaims/binding], verbs: [update, patch]}."
)


async def check_binder(client: Client, read: Read) -> Checks:
    """Check that each account of KAI's binder may allocate ResourceClaims.

    If there is no ClusterRoleBinding of the binder, a check `ok` says so. Otherwise, return [] if
    Kubernetes is older than 1.36 and does not require the permission, or if its version is not
    known. Raise ClusterError if a request fails.
    """
    binding = await find(client, ObjectRef(CLUSTER_ROLE_BINDING, _ROLE))
    if binding is None:
        message = (
            f"there is no ClusterRoleBinding {_ROLE}, so the permissions of KAI's binder were not"
            " checked"
        )
        return [ok(message)]
    try:
        version = await read("/version")
    except NotFound:
        return []
    if version_number(version) < _SINCE:
        return []

    return [
        await _check(client, text_at(subject, "namespace"), text_at(subject, "name"))
        for subject in maps_at(binding, "subjects")
        if subject.get("kind") == "ServiceAccount"
    ]


async def _check(client: Client, namespace: str, account: str) -> Check:
    """Check that an account of KAI's binder may allocate ResourceClaims."""
    refused = [
        verb
        for verb in _NEED.verbs
        if not await is_allowed(client, _NEED, verb, namespace, account)
    ]
    if not refused:
        return ok(f"service account {namespace}/{account} may bind ResourceClaims")
    message = (
        f"service account {namespace}/{account} may not {', '.join(refused)} {_NEED}: from"
        " Kubernetes 1.36 on, KAI can't bind a Pod whose ResourceClaim is not allocated yet"
    )
    return problem(message, _REMEDY)


# Queues.


async def check_queues(client: Client) -> Checks:
    """Check that the queues of KAI set a limit for GPUs, CPUs and memory.

    Queues that lack the same limits share one warning. Return [] if the cluster does not serve
    queues. Raise ClusterError if a request fails.
    """
    if not client.served_version(QUEUE):
        return []
    queues = map(read_queue, await every(client, Selection(QUEUE)))
    lacking = by_key(
        (limits, queue.name) for queue in queues if queue.name and (limits := unset_limits(queue))
    )
    if not lacking:
        return [ok("each queue sets limits for GPUs, CPUs and memory")]
    return [_without_limits(limits, names) for limits, names in sorted(lacking.items())]


def _without_limits(limits: tuple[str, ...], names: Sequence[str]) -> Check:
    """Return the warning about the queues `names`, which all lack `limits`.

    KAI reads a missing limit as 0.
    """
    bounds = {name: {"limit": -1} for name in limits}
    patch = shlex.quote(to_json({"spec": {"resources": bounds}}).decode())
    first, *_ = names = sorted(names)
    number = "queue sets" if len(names) == 1 else "queues set"
    of, any_of = (listed(limits, _MOST_QUEUES, word) for word in (" and ", " or "))
    return warning(
        f"{len(names)} {number} no limit for {of} ({listed(names, _MOST_QUEUES)}): KAI reads a"
        f" missing limit as 0, and places no pod there that requests {any_of}",
        'Set the limits, for example to -1 ("unlimited"): kubectl patch'
        f" queues.scheduling.run.ai {shlex.quote(first)} --type merge -p {patch}",
    )


async def check_order(client: Client) -> Checks:
    """Return a check for each SchedulingShard that may change the order of gangs.

    The checks are `ok`: they only say that the order in `explain`, which assumes KAI's defaults,
    may be wrong. Return [] if the cluster does not serve SchedulingShards. Raise ClusterError if a
    request fails.
    """
    if not client.served_version(SCHEDULING_SHARD):
        return []
    shards = map(read_shard, await every(client, Selection(SCHEDULING_SHARD)))
    return [
        ok(
            f"SchedulingShard {shard.name} sets {listed(shard.sets, _MOST_SHOWN)}: the order of its"
            " gangs may differ from the output of explain and queues, which assume KAI's defaults"
        )
        for shard in shards
        if shard.sets
    ]


# The eviction of gangs below their minimum.


_ARGUMENT = "default-staleness-grace-period"
_DEFAULT = "60s"
_PATCH = shlex.quote(f'{{"spec":{{"args":{{"{_ARGUMENT}":"-1s"}}}}}}')


async def check_staleness(client: Client) -> Checks:
    """Check for each SchedulingShard whether KAI evicts gangs that are below their minimum.

    Return [] unless the cluster serves SchedulingShards and PodGangs. Raise ClusterError if a
    request fails.
    """
    if not client.served_version(SCHEDULING_SHARD) or not client.served_version(POD_GANG):
        return []
    return list(map(_check_shard, await every(client, Selection(SCHEDULING_SHARD))))


def _check_shard(shard: JsonMap) -> Check:
    """Check the time after which the scheduler of `shard` evicts gangs below their minimum.

    With a negative duration, such as -1s, it never evicts them.
    """
    name = key_of(shard)[1]
    given = map_at(shard, "spec", "args").get(_ARGUMENT, _DEFAULT)
    seconds = signed_duration(given)
    remedy = (
        f"Switch eviction off: kubectl patch schedulingshards {shlex.quote(name)} --type merge -p"
        f" {_PATCH}"
    )
    if seconds is None:
        return problem(
            f'SchedulingShard {name} sets {_ARGUMENT} to "{given}", which is not a duration with a'
            " unit: its scheduler does not start",
            remedy,
        )
    if seconds < 0:
        return ok(f"SchedulingShard {name}: KAI does not evict gangs that are below their minimum")
    return warning(
        f"SchedulingShard {name}: KAI evicts all pods of a gang that has been below its minimum for"
        f" {given}, although Grove replaces the missing pods",
        remedy,
    )
