"""Validate lists of levels, authorize writes of the managed topology, and suggest node labels.

Source: `rules/README.md`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from app.base.value import Value
from app.facts.grove.topology import DOMAINS, HOSTNAME_KEY, Level, levels_for_kai
from app.facts.labels import NVLINK_DOMAIN
from app.objects import fields
from app.objects.fields import FieldError, FieldPath, Findings
from app.objects.names import label_key_problem

MAX_LEVELS = 7
MAX_KEY = 63
STILL_ALLOWED = "stored topology constraint, still allowed"
"""The beginning of warnings about invalid constraints that an update leaves unchanged."""

NO_LEVELS = f"add at least one level, such as {{domain: host, key: {HOSTNAME_KEY}}}"


def desired_levels(levels: Iterable[Level]) -> list[dict[str, str]]:
    """Return `levels` as `spec.levels` of a ClusterTopology."""
    return [{"domain": level.domain, "key": level.key} for level in levels]


def _validate_domain(at: FieldPath, domain: str) -> FieldError | None:
    return None if domain in DOMAINS else fields.not_supported(at, domain, DOMAINS)


def _validate_key(at: FieldPath, key: str) -> FieldError | None:
    problem = (
        f"must be no more than {MAX_KEY} characters"
        if len(key) > MAX_KEY
        else label_key_problem(key)
    )
    return None if problem is None else fields.invalid(at, key, problem)


class TextRule(Value):
    """The rule for a string field of a level."""

    hint: str
    """The suggestion to show if the field is missing."""
    validate: Callable[[FieldPath, str], FieldError | None]
    """Returns a finding if the string is invalid, otherwise None."""


DOMAIN_RULE = TextRule(f"set it to one of {', '.join(DOMAINS)}", _validate_domain)
_KEY_RULE = TextRule(
    "set the node label of this level, such as topology.kubernetes.io/rack", _validate_key
)


def validate_levels(
    levels: Sequence[Any],
    path: FieldPath,
    domain_rule: TextRule = DOMAIN_RULE,
    most: int = MAX_LEVELS,
) -> Findings:
    """Return findings about `levels`, a list of at most `most` maps with `domain` and `key`.

    `path` is the path of the list.
    """
    findings: Findings = []
    if not levels:
        return [fields.required(path, NO_LEVELS)]

    if len(levels) > most:
        findings.append(fields.invalid(path, len(levels), f"must have at most {most} levels"))

    domains: set[str] = set()
    keys: set[str] = set()
    for position, level in enumerate(levels):
        at = path.index(position)
        if not isinstance(level, dict):
            findings.append(fields.wrong_type(at, level, "a map"))
            continue
        for name, rule, seen in (("domain", domain_rule, domains), ("key", _KEY_RULE, keys)):
            value: Any = level.get(name)
            problem = _text_problem(value, at.child(name), rule, seen)
            if problem is None:
                seen.add(value)
            else:
                findings.append(problem)

    return findings


def _text_problem(
    value: Any, at: FieldPath, rule: TextRule, seen: Collection[str]
) -> FieldError | None:
    """Return the finding about `value`, or None if it is valid and not one of `seen`."""
    if value is None or value == "":
        return fields.required(at, rule.hint)
    if not isinstance(value, str):
        return fields.wrong_type(at, value, "a string")
    problem = rule.validate(at, value)
    if problem is None and value in seen:
        return fields.duplicate(at, value)
    return problem


def levels_below_host(levels: Sequence[Level]) -> str:
    """Return the warning that KAI cannot use some of `levels` (broadest first), or ""."""
    usable = levels_for_kai(levels)
    if len(usable) == len(levels):
        return ""
    below = ", ".join(f'"{level.domain}"' for level in levels[len(usable) :])
    return (
        f"KAI cannot use levels below {HOSTNAME_KEY}: constraints on {below} are written as"
        f' "{usable[-1].domain}"'
    )


def refusal_to_write(
    kind: str, name: str, operation: str, username: str, authorized: Collection[str]
) -> str | None:
    """Return why `username` may not do `operation` on the managed topology, or None if allowed.

    The topology is the object `name` of `kind`. Only `authorized` (full user names) may write it,
    and cluster administrators are not exempt.
    """
    if username in authorized:
        return None
    allowed = ", ".join(sorted(authorized)) or "none (authorizedUsers is empty)"
    return (
        f'{kind} "{name}" is managed by grove-admission: user "{username}" may not'
        f" {operation.lower()} it. Allowed users: {allowed}. Change clusterTopology in the"
        f" configuration of grove-admission, or use a {kind} with another name"
    )


# Node labels that other programs write for topologies. Topograph 1.0 renamed its labels, so the
# levels of a topology may still name the old keys. Source:
# https://github.com/NVIDIA/topograph/blob/v1.0.0/docs/reference/node-labels.md


_CLOSEST = "fabric.topograph.run/tier-0"
_ACCELERATOR = "accelerator.topograph.run/domain"
_TIERS = tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(8))
_BEFORE_1_0 = tuple(
    f"network.topology.nvidia.com/{level}" for level in ("accelerator", "leaf", "spine", "core")
)


class LabelFamily(Value):
    """The topology labels of nodes that one source, such as a cloud provider, writes."""

    source: str
    """The name of the source, such as `AWS`."""
    keys: tuple[str, ...]
    """The labels, broadest first, in the order that the source documents."""


CLOUDS = (
    LabelFamily("AWS", tuple(f"topology.k8s.aws/network-node-layer-{n}" for n in range(1, 5))),
    LabelFamily(
        "Google Cloud",
        ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    ),
    LabelFamily(
        "CoreWeave",
        (
            "backend.coreweave.cloud/fabric",
            "backend.coreweave.cloud/leafgroup",
            "ds.coreweave.com/nvlink.domain",
        ),
    ),
    LabelFamily(
        "CoreWeave",
        (
            "ib.coreweave.cloud/fabric",
            "ib.coreweave.cloud/superpod",
            "ib.coreweave.cloud/leafgroup",
            "ds.coreweave.com/nvlink.domain",
        ),
    ),
    LabelFamily(
        "Oracle Cloud",
        tuple(
            f"oci.oraclecloud.com/rdma.{level}_id"
            for level in ("hpc_island", "network_block", "local_block")
        ),
    ),
    LabelFamily(
        "Oracle Cloud",
        ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    ),
    LabelFamily(
        "Nebius",
        tuple(
            f"topology.nebius.com/{level}"
            for level in ("gpu-cluster-id", "tier-2", "tier-1", "tier-0")
        ),
    ),
    LabelFamily("Crusoe", ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id")),
)
"""The labels of cloud providers that can be levels. Azure and Lambda document no such labels.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html,
https://cloud.google.com/ai-hypercomputer/docs/workloads/schedule-gke-workloads-tas,
https://docs.coreweave.com/products/networking/hpc-interconnect/infiniband-roce-labels,
https://github.com/oracle-quickstart/oci-hpc-oke (docs/using-rdma-network-locality-...),
https://github.com/NVIDIA/topograph/blob/v1.0.0/docs/reference/node-labels.md (rack of Oracle),
https://github.com/nebius/soperator/blob/c238d993/internal/consts/label.go, and
https://docs.nvidia.com/topograph/providers/crusoe.
"""

_TOPOGRAPH = (
    LabelFamily("Topograph", (*reversed(_TIERS), _ACCELERATOR)),
    LabelFamily("Topograph before 1.0", (*reversed(_BEFORE_1_0),)),
)

KNOWN = (
    *_TIERS,
    _ACCELERATOR,
    "accelerator.topograph.run/sub-domain",
    *_BEFORE_1_0,
    *dict.fromkeys(key for family in CLOUDS for key in family.keys),
    "cloud.google.com/gce-topology-host",
    NVLINK_DOMAIN,
)
"""The topology labels that messages suggest if a level has a label that nodes lack."""

_LEVEL_NAMES = ("region", "zone", "datacenter", "block", "rack")
"""Names of levels that all dialects of Grove allow, broadest first."""


def labels_hint(key: str, present: Collection[str]) -> str:
    """Return the end of a message about the missing label `key`: `; nodes have …`.

    It lists the known topology labels among `present`, the labels of the nodes. It is "" if there
    are none.
    """
    found = [known for known in KNOWN if known in present]
    if not found:
        return ""

    words = f"; nodes have {', '.join(found)}"
    if _CLOSEST in found:
        words += " (tier-0 is the switch closest to a node)"
    if key == _ACCELERATOR and NVLINK_DOMAIN in found:
        words += f", and Topograph may omit {key} on nodes that have {NVLINK_DOMAIN}"
    return words


def is_documented(broader: str, narrower: str) -> bool:
    """Return whether a source documents the label `broader` as broader than `narrower`."""
    return any(
        {broader, narrower} <= set(family.keys)
        and family.keys.index(broader) < family.keys.index(narrower)
        for family in (*CLOUDS, *_TOPOGRAPH)
    )


def suggested_levels(present: Collection[str]) -> tuple[Level, ...]:
    """Suggest levels, broadest first, for the labels `present` that nodes have.

    If nodes have the labels of several sources, the source with the most labels is used. Only its
    broadest labels become levels, at most as many as _LEVEL_NAMES, and the host is added. The
    result is empty if nodes have no label of a source.
    """
    found = [[key for key in family.keys if key in present] for family in (*CLOUDS, *_TOPOGRAPH)]
    keys = max(found, key=len)[: len(_LEVEL_NAMES)]
    if not keys:
        return ()
    names = _LEVEL_NAMES[len(_LEVEL_NAMES) - len(keys) :]
    levels = [Level(name, key) for name, key in zip(names, keys, strict=True)]
    return (*levels, Level("host", HOSTNAME_KEY))


def yaml_of_levels(levels: Iterable[Level]) -> str:
    """Return levels as one line of YAML, to paste into `spec.levels`."""
    return f"[{', '.join(f'{{domain: {level.domain}, key: {level.key}}}' for level in levels)}]"
