"""The policies about who may use which queue of KAI, where they are installed."""

import re
from collections.abc import Iterator

from app.config.schema import Configuration
from app.doctor.policies import SUBJECT, Policies, denies, differences, labels_of, read_policies
from app.doctor.report import Check
from app.facts.labels import KAI_SCHEDULER
from app.kube.api import Client
from app.objects.shape import map_of, maps_of, text_of
from app.webhooks.policies import Mode, exempt_namespaces, queue_policies
from app.webhooks.policy_objects import QUEUES

_ACCOUNTS = re.compile(r'"system:serviceaccounts:([^"]+)"')


async def check_queue_guard(client: Client, configuration: Configuration) -> list[Check]:
    """Return what the queue guard does, and how it differs. Nothing if it is not installed."""
    stored = await read_policies(client, labels_of(QUEUES))
    if not stored.policies and not stored.bindings:
        return []

    mode: Mode = "warn"
    effect = "only warns of them"
    if any(denies(binding) for bindings in stored.bindings.values() for binding in bindings):
        mode = "refuse"
        effect = "refuses them"

    namespace = _kai_namespace(stored, configuration)
    desired = queue_policies(configuration, mode, namespace)
    remedy = (
        "Print the queue guard with the configuration of the server (grove-admission policies"
        f" --queues {mode} --kai-namespace {namespace}), and apply it with --prune, as in the"
        " manifests README."
    )
    message = f"the queue guard looks at writes that name a queue, and {effect}"
    return [Check(SUBJECT, "ok", message), *differences(stored, desired, remedy)]


def _kai_namespace(stored: Policies, configuration: Configuration) -> str:
    """Return the namespace of KAI, as the policies were printed for."""
    exempt = exempt_namespaces(configuration)
    named = {namespace for namespace in _trusted(stored) if namespace not in exempt}
    return min(named, default=KAI_SCHEDULER)


def _trusted(stored: Policies) -> Iterator[str]:
    for policy in stored.policies.values():
        for condition in maps_of(map_of(policy.get("spec")).get("matchConditions")):
            yield from _ACCOUNTS.findall(text_of(condition.get("expression")))
