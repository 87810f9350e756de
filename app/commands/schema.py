"""The command `schema`: print the JSON Schema of a command's output with --output json.

Each schema has a version, which grows when a field is removed or changes its type. It does not grow
when a field is added, so readers must ignore fields that they don't know.
"""

import argparse
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from msgspec.json import schema_components

from app.audit.finding import AuditCounts, Finding, Outcome
from app.base.safe_text import visible_json
from app.commands.options import Command
from app.commands.trial import Counts, ReportedMessage
from app.doctor.report import Check, Status
from app.explain.answers.answer import Answer
from app.explain.answers.branch import AS_JSON, State
from app.explain.answers.gpu_users import GpuUser
from app.explain.answers.positions import InLine
from app.explain.answers.queues import QueueRow
from app.explain.answers.topology import ConstraintChange
from app.explain.answers.whatif.effects import Fate, Worse
from app.explain.reasons.reason import Reason
from app.explain.reasons.table import Unknown
from app.facts.grove.topology import Level
from app.facts.identity import Ref

Gpus = int | float | None
"""A number of GPUs, possibly fractional, or null."""


class ReportedUser(GpuUser, rename=AS_JSON):
    """The use of GPUs by one workload in one queue."""

    gpus: Gpus  # type: ignore[assignment]


class RoomInDomain(TypedDict):
    """The number of pods that fit into a domain, of the first part that does not fit as a whole."""

    domain: list[str]
    pods: int


class Explanation(Answer, rename=AS_JSON):
    """The explanation of one object."""

    room: tuple[RoomInDomain, ...]  # type: ignore[assignment]


class FirstReason(TypedDict):
    """The first reason of a workload. `id` and `who` are "" if no reason was found."""

    id: str
    text: str
    who: str
    remedy: str
    commands: list[str]


class Totals(TypedDict):
    """The numbers of workloads: all, by their state, and by the id of their first reason.

    `otherPendingPods` is the number of pending pods that belong to no listed workload.
    """

    workloads: int
    states: dict[str, int]
    reasons: dict[str, int]
    otherPendingPods: NotRequired[int]


class ListedWorkload(TypedDict):
    """A workload in a list, with its first reason.

    `more` is the number of other reasons or of other messages of KAI. `line` is the position of its
    first gang in KAI's order.
    """

    object: Ref
    state: State
    ageSeconds: int | None
    placed: int | None
    total: int | None
    reason: FirstReason
    more: int
    line: NotRequired[InLine | None]


class WorkloadList(TypedDict):
    """All listed workloads, pending ones first.

    `unseen` has the cause for each kind that could not be read in full.
    """

    totals: Totals
    workloads: list[ListedWorkload]
    unseen: dict[str, str]


class ReportedLevel(TypedDict):
    """A topology level: its name (`domain`) and its node label (`key`).

    `nodes` is the number of nodes with this label, and `domains` the number of domains. Both are
    null if they are not known. `findings` is the number of findings about the label.
    """

    domain: str
    key: str
    nodes: int | None
    domains: int | None
    findings: int


class TopologyDomain(TypedDict):
    """A domain with numbers of nodes and GPUs.

    `closed` is the number of nodes that accept no pods with GPUs. `free` and `soon` (the GPUs of
    terminating pods) are null if they are not known.
    """

    path: list[str]
    nodes: int
    closed: int
    gpus: Gpus
    free: Gpus
    soon: Gpus


class RoomByPath(TypedDict):
    """The number of requested pods that fit into a domain.

    `withLabels` is the number that fit if unlabelled nodes get their neighbours' labels.
    """

    path: list[str]
    pods: int
    withLabels: int


class RoomAtLevel(TypedDict):
    """The room for `pods` pods of `gpus` GPUs in each domain of a level."""

    level: str
    pods: int
    gpus: Gpus
    domains: list[RoomByPath]


class FoundRoom(RoomAtLevel):
    """The room at the requested level, and at the next `wider` level that has enough, or null.

    `fits` says whether one domain has room for all pods. `withSpare` is the number of pods that fit
    if `mnnvl.spareNodes` nodes stay free, or null if that was not examined.
    """

    fits: bool
    wider: RoomAtLevel | None
    largestNode: Gpus
    nodePools: list[str]
    withSpare: int | None


class PreviewOfLevels(TypedDict):
    """The effects that the levels in the file of --levels would have on stored PodCliqueSets."""

    levels: list[Level]
    keysOnNoNode: list[str]
    effects: list[ConstraintChange]
    reasons: list[Reason]


class NamedTopology(TypedDict):
    kind: str
    name: str


class HeldChannel(TypedDict):
    """A ResourceClaim that holds the NVLink channel of a node unnecessarily."""

    claim: Ref
    node: str
    reason: str
    remedy: str


class HeldChannelsReport(TypedDict):
    """Claims that hold NVLink channels unnecessarily, and the number of pods pending for one."""

    claims: list[HeldChannel]
    waitingPods: int


class TopologyReport(TypedDict):
    """The topology and its domains.

    `unseen` has the cause for each kind that could not be read in full.
    """

    topology: NamedTopology | None
    kaiTopology: str | None
    nodes: int | None
    levels: list[ReportedLevel]
    outside: list[str]
    heldChannels: HeldChannelsReport | None
    reasons: list[Reason]
    unknown: list[Unknown]
    unseen: dict[str, str]
    domains: list[TopologyDomain]
    users: NotRequired[list[ReportedUser] | None]
    room: NotRequired[FoundRoom]
    preview: NotRequired[PreviewOfLevels]


class PodsNotLookedAt(TypedDict):
    """The numbers of pods without a gang that were not examined because they are too many.

    `moving` pods must move, and `waiting` pods are pending. Of each, 500 pods are examined.
    """

    moving: int
    waiting: int


class WhatIfReport(TypedDict):
    """The effects that edits of the cluster would have on gangs."""

    edits: list[str]
    moves: list[Fate]
    waits: list[Fate]
    worse: list[Worse]
    topology: list[Reason]
    podsNotExamined: int
    podsCut: PodsNotLookedAt
    room: NotRequired[FoundRoom]


class ReportedQueue(QueueRow, rename={"in_line": "inLine"}):
    """A queue. Null means unlimited for quota and limit, and not known for other fields."""

    quota: Gpus = None  # type: ignore[assignment]
    limit: Gpus = None  # type: ignore[assignment]
    used: Gpus = None  # type: ignore[assignment]
    fixed: Gpus = None  # type: ignore[assignment]
    fair: Gpus = None  # type: ignore[assignment]
    problems: tuple[str, ...] = ()
    users: tuple[ReportedUser, ...] | None = None


class QueueList(TypedDict):
    """The queues of KAI.

    `unseen` has the cause for each kind that could not be read in full.
    """

    headline: str
    queues: list[ReportedQueue]
    unseen: dict[str, str]


class AuditedObject(Finding):
    """A finding of the audit about one object."""

    outcome: Outcome


class AuditSummary(TypedDict):
    """The numbers of objects by kind, and what could not be checked."""

    counts: dict[str, AuditCounts]
    notInstalled: list[str]
    unread: dict[str, str]
    notes: list[str]


class AuditEnd(TypedDict):
    """The last line of the audit's output."""

    summary: AuditSummary


class MadeCheck(Check):
    """A check of doctor with its subject."""

    subject: str = ""


class DoctorReport(TypedDict):
    """All checks of doctor, and their number by status."""

    checks: list[MadeCheck]
    summary: dict[Status, int]


class JudgedObject(TypedDict):
    apiVersion: str
    kind: str
    namespace: str
    name: str


class Cause(TypedDict):
    """A finding that rejects a document."""

    field: str
    reason: str
    message: str


class CheckedDocument(TypedDict):
    """A document with its verdict.

    `webhook` is null if no webhook judges the document, and "" if the verdict is not a webhook's,
    such as the warnings about a Queue. Empty fields are omitted.
    """

    file: str
    object: JudgedObject
    webhook: str | None
    allowed: bool
    code: int
    message: NotRequired[str]
    causes: NotRequired[list[Cause]]
    warnings: NotRequired[list[str]]
    patch: NotRequired[list[dict[str, Any]]]
    patchedObject: NotRequired[dict[str, Any]]
    wouldCreate: NotRequired[list[dict[str, Any]]]
    wouldAdopt: NotRequired[list[dict[str, Any]]]
    note: NotRequired[str]


class CheckedDocuments(TypedDict):
    """All documents with their verdicts. `allowed` is false if any is not allowed."""

    allowed: bool
    results: list[CheckedDocument]


class UserCounts(Counts):
    """The numbers of writes of one user in one namespace, by outcome."""

    user: str = ""
    namespace: str = ""


class CountedMessage(ReportedMessage):
    """A message with which `count` writes were or would be rejected, and the first such write."""

    outcome: str
    count: int
    example: str


class TrialReport(TypedDict):
    """The writes that a server in warn-only mode rejected or would have rejected, from its logs."""

    events: int
    judged: int
    unknownCallers: int
    users: list[UserCounts]
    findings: list[CountedMessage]
    notJudged: dict[str, int]


SCHEMAS: Mapping[str, tuple[int, Any]] = {
    "explain": (1, Explanation),
    "explain-list": (1, WorkloadList),
    "topology": (1, TopologyReport),
    "topology-if": (1, WhatIfReport),
    "queues": (1, QueueList),
    "audit": (1, AuditedObject),
    "audit-summary": (1, AuditEnd),
    "doctor": (1, DoctorReport),
    "check": (1, CheckedDocuments),
    "trial": (1, TrialReport),
}
"""The version and the type of each schema, by its name.

`audit` prints one document per line: one for each finding, then the summary.
"""


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) with the name `name` in SCHEMAS."""
    version, printed = SCHEMAS[name]
    (schema,), components = schema_components([printed], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"grove-admission {name}",
        "version": version,
        **schema,
        "$defs": components,
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=SCHEMAS, help=", ".join(SCHEMAS))


def run(arguments: argparse.Namespace) -> int:
    print(visible_json(schema_of(arguments.name), indented=True))
    return 0


COMMAND = Command(
    description=(
        "Print the JSON Schema of a command's output with --output json. Exit code: 0 done, 2"
        " unusable input."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission schema explain",
        "grove-admission schema topology > topology.schema.json",
    ),
)
