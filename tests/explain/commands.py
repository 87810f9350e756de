"""The commands in remedies: where they are, their parts, and what a person puts in the place of
their capital words.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.explain.state.queues import unusable_because
from app.explain.state.snapshot import Snapshot
from app.facts.kinds import (
    ALL,
    CLUSTER_QUEUE,
    KUEUE_QUEUE,
    KUEUE_WORKLOAD,
    RAY_JOB,
    RAY_SERVICE,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_CLAIM,
)
from app.kube.api import ObjectRef
from app.objects.resource import Resource, built_in
from tests.explain import fleet

WRITES = ("label", "annotate", "patch", "delete", "taint", "cordon", "uncordon")
READS = ("get", "describe", "logs")
UNREAD = (
    *(
        Resource("kueue.x-k8s.io", plural, kind, False, ("v1beta1",))
        for plural, kind in (
            ("admissionchecks", "AdmissionCheck"),
            ("resourceflavors", "ResourceFlavor"),
            ("topologies", "Topology"),
        )
    ),
    Resource("autoscaling.x-k8s.io", "provisioningrequests", "ProvisioningRequest", True),
)
"""Kinds of custom resources that we name and never read."""
RESOURCE_QUOTA = built_in("", "resourcequotas", "ResourceQuota")
KUEUE = (KUEUE_WORKLOAD, KUEUE_QUEUE, CLUSTER_QUEUE)
STORAGE = (VOLUME, VOLUME_CLAIM, STORAGE_CLASS)
OTHERS = (*KUEUE, *UNREAD, RESOURCE_QUOTA, RAY_JOB, RAY_SERVICE, *STORAGE)
KINDS = tuple(dict.fromkeys((*ALL, *OTHERS)))
"""What our texts name."""
_SHORT = {"pv": "persistentvolumes", "pvc": "persistentvolumeclaims"}
_WITH_VALUE = ("-n", "-p", "-l", "-o", "-c", "--type", "--subresource", "--field-selector")
_IN_WORDS = re.compile(r"(?:kubectl|grove-admission) (?:[^'.|,;()`]|'[^']*'|\.(?=\S))+")
"""A command in a sentence: to a pipe, a comma, or the end of the sentence."""
_IS_COMMAND = re.compile(r"kubectl [a-z]|grove-admission (?:explain|doctor|topology)\b")
_PLACEHOLDER = re.compile(r"\b(?:NODE|VALUE|QUEUE|NAME|USER)\b")


class Refused(Exception):
    """kubectl would end with an error."""


@dataclass(frozen=True)
class Command:
    """A command line of kubectl in its parts. `changes` are those of labels and taints."""

    verb: str
    resource: Resource
    names: tuple[str, ...]
    changes: tuple[str, ...]
    options: dict[str, str]

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    @property
    def refs(self) -> list[ObjectRef]:
        """The objects that it names."""
        return [ObjectRef(self.resource, name, self.namespace) for name in self.names]

    @property
    def namespace(self) -> str | None:
        """kubectl's own default is what a command without one means."""
        if not self.resource.namespaced or "-A" in self.options:
            return None
        return self.options.get("-n", "default")


def commands_of(reason: Reason) -> list[str]:
    """All commands of a remedy, those in its sentences included."""
    in_words = (match.strip() for match in _IN_WORDS.findall(reason.remedy))
    return [*reason.commands, *filter(_IS_COMMAND.match, in_words)]


def kubectl_commands(reason: Reason) -> list[str]:
    return [text for text in commands_of(reason) if text.startswith("kubectl ")]


def parsed(text: str) -> Command:
    """The parts of a command. A Refused for what kubectl, or this function, does not know."""
    program, verb, *words = shlex.split(text)
    if program != "kubectl" or verb not in (*WRITES, *READS):
        raise Refused(f"nobody knows {program} {verb}")
    options, rest = _options(words)
    kind = {"cordon": "nodes", "uncordon": "nodes", "logs": "pods"}.get(verb) or rest.pop(0)
    marks = verb in ("label", "annotate", "taint")
    changes = [word for word in rest if marks and ("=" in word or word.endswith("-"))]
    names = rest[: len(rest) - len(changes)]
    if verb in WRITES and not (names and (changes or not marks)):
        raise Refused(f"nothing is named: {text}")
    return Command(verb, resource_of(kind), tuple(names), tuple(changes), options)


def _options(words: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The options with their values, and the other words."""
    options: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word.startswith("-"):
            options[word] = next(left) if word in _WITH_VALUE else ""
        else:
            rest.append(word)
    return options, rest


def resource_of(name: str) -> Resource:
    """The kind that kubectl understands: plural or singular, with its group or without."""
    plain, _, group = _SHORT.get(name, name).partition(".")
    for resource in KINDS:
        if plain in (resource.plural, resource.kind.lower()) and group in ("", resource.group):
            return resource
    raise Refused(f"the server doesn't have a resource type {name!r}")


def placeholders(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text))


def filled(text: str, reason: Reason, snapshot: Snapshot) -> list[str]:
    """The commands that a person types who follows the remedy."""
    if "QUEUE" in placeholders(text):
        text = text.replace("QUEUE", _usable_queue(reason, snapshot))
    nodes = [ref.name for ref in reason.objects if ref.kind == "Node"]
    if not nodes:
        keys = re.findall(r"([\w./-]+)=VALUE", text)
        nodes = [n.name for n in snapshot.nodes if any(key not in n.labels for key in keys)]
    texts = [text.replace("NODE", name) for name in nodes] if "NODE" in text else [text]
    return [_with_values(text, nodes) for text in texts]


def _usable_queue(reason: Reason, snapshot: Snapshot) -> str:
    """A queue for the PodGroup, which the remedy may label with another node pool first."""
    index = Index(snapshot)
    moves = [re.search(r"kai\.scheduler/node-pool=?([\w.-]*)", text) for text in reason.commands]
    pools = [match[1].removesuffix("-") for match in moves if match]
    of_group = {group.ref: group.pool for group in snapshot.pod_groups}
    own = [of_group[ref] for ref in reason.objects if ref in of_group]
    pool = next(iter((*pools, *own)), snapshot.pod_groups[0].pool)
    names = (queue.name for queue in snapshot.queues)
    return min(name for name in names if not unusable_because(index, name, pool))


def _with_values(text: str, names: Sequence[str]) -> str:
    """The command with the labels that the nodes of the fleet have."""
    node = next((node for node in fleet.nodes() if node.name in names), None)

    def value(match: re.Match[str]) -> str:
        assert node is not None, text
        return f"{match[1]}={node.labels[match[1]]}"

    return re.sub(r"([\w./-]+)=VALUE", value, text)
