"""The policies about queues of KAI, where they are installed, and the names that they read."""

import re
from collections.abc import Iterator

from app.config.schema import Configuration
from app.doctor.policies import Policies, denies, differences, labels_of, read_policies
from app.doctor.report import Checks, ok, warning
from app.facts.kai.queue import read_queue_names
from app.facts.kinds import QUEUE, QUEUE_NAMES
from app.facts.labels import KAI_SCHEDULER
from app.kube.api import Client, Selection, every
from app.objects.shape import maps_at, text_at
from app.reconcilers.queue_names import NAME, listable
from app.webhooks.policies import Mode, exempt_namespaces, queue_policies
from app.webhooks.policy_objects import QUEUES

_MOST_SHOWN = 5
_ACCOUNTS = re.compile(r'"system:serviceaccounts:([^"]+)"')


async def check_queue_guard(client: Client, configuration: Configuration) -> Checks:
    """Return what the queue guard does, and how it differs. Nothing if it is not installed."""
    stored = await read_policies(client, labels_of(QUEUES))
    is_defined = client.served_version(QUEUE_NAMES) is not None
    if not stored.policies and not stored.bindings:
        return [_LEFT_BEHIND] if is_defined else []

    mode: Mode = "warn"
    effect = "only warns of them"
    if any(denies(binding) for bindings in stored.bindings.values() for binding in bindings):
        mode = "refuse"
        effect = "refuses them"

    namespace = _kai_namespace(stored, configuration)
    desired = queue_policies(configuration, mode, namespace)
    remedy = (
        "Print the queue guard with the configuration of the server (grove-admission policies"
        f" --queues {mode} --kai-namespace {namespace}), and apply it with --prune, as in"
        " manifests/guide/queue-guard.md."
    )
    message = f"the queue guard looks at writes that name a queue, and {effect}"
    checks = [ok(message), *differences(stored, desired, remedy)]
    if not is_defined:
        return [*checks, _NO_NAMES]
    return [*checks, *await _check_names(client, configuration.certificates.namespace)]


_NO_NAMES = warning(
    f"CRD {QUEUE_NAMES} is not installed: no policy warns of queues that don't exist",
    "kubectl apply -f manifests/overlays/queue-guard/queuenames.yaml",
)
_LEFT_BEHIND = warning(
    f"CRD {QUEUE_NAMES} was left behind: the policies that read it are not installed",
    f"kubectl delete crd {QUEUE_NAMES}",
)


async def _check_names(client: Client, namespace: str) -> Checks:
    """Return whether policies know which Queues there are, by which they warn of others."""
    if client.served_version(QUEUE) is None:
        return []
    queues = await every(client, Selection(QUEUE, metadata_only=True))
    names = frozenset(queue["metadata"]["name"] for queue in queues)
    objects = await every(client, Selection(QUEUE_NAMES))
    stored = {obj["metadata"]["name"]: read_queue_names(obj) for obj in objects}
    listed = stored.get(NAME, frozenset())
    if listed == listable(names):
        known = f"the {len(names)} Queues are known to the policies, which warn of others"
        too_many = f"{len(names)} Queues are too many for one object: no policy warns of others"
        return [ok(known if listed == names else too_many)]

    differing = sorted(names ^ listed)
    shown = ", ".join(differing[:_MOST_SHOWN])
    message = (
        f"{QUEUE_NAMES.kind} {NAME}, by which policies warn of queues that don't exist, is not in"
        f" step with {len(differing)} Queues: {shown}"
    )
    remedy = (
        "The leader writes it within seconds. See why it doesn't:"
        f" kubectl -n {namespace} logs deployment/grove-admission."
    )
    return [warning(message, remedy)]


def _kai_namespace(stored: Policies, configuration: Configuration) -> str:
    """Return the namespace of KAI, as the policies were printed for."""
    exempt = exempt_namespaces(configuration)
    return min(set(_trusted(stored)).difference(exempt), default=KAI_SCHEDULER)


def _trusted(stored: Policies) -> Iterator[str]:
    """Yield the namespaces whose service accounts the policies let pass."""
    for policy in stored.policies.values():
        for condition in maps_at(policy, "spec", "matchConditions"):
            yield from _ACCOUNTS.findall(text_at(condition, "expression"))
