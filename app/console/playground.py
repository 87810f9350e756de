"""Show the page Playground: verdicts on pasted documents, with or without the cluster's objects.

Documents are not sent to the cluster and not stored.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence

import yaml

from app.admission.verdict import Verdict
from app.base.unusable import UnusableInput
from app.base.value import Value
from app.cluster.filled import cluster_around, cluster_of
from app.config.schema import Configuration
from app.console.page import ConsolePage, Query, Values
from app.console.source import difference, line_in_source, masked, roots
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, Judgement, identify, judge
from app.explain.gangs.planned import PLACEMENT, planned
from app.explain.live import Live
from app.explain.reasons.reason import counted
from app.explain.reasons.table import examine
from app.explain.state.index import Index
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Client, Object
from app.webhooks.registry import routes_over

MOST_TEXT = 1_000_000
"""The maximum number of characters of a pasted text that are read."""
OPERATIONS = ("CREATE", "UPDATE", "DELETE")
_FIELD = re.compile(r"([A-Za-z][\w.\[\]/-]*): ")
_LOOKS = {
    "allowed": ("well", "allowed"),
    "patched": ("well", "allowed, patched"),
    "refused": ("problem", "refused"),
    "failed": ("unknown", "not decided"),
}
"""The state and the words that the page shows for each outcome of a verdict."""
EXAMPLE = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: llm-serve
  namespace: default
spec:
  replicas: 1
  template:
    topologyConstraint:
      packDomain: rack
    cliques:
      - name: decode
        topologyConstraint:
          packDomain: zone
        spec:
          roleName: decode
          replicas: 4
          podSpec:
            containers:
              - name: main
                image: registry.example/inference:1
                resources:
                  limits:
                    nvidia.com/gpu: 8
"""


class Judge(Value):
    """A function that gives verdicts on the documents of a form.

    The form has the fields `text`, `operation` and `user`. It also has `cluster` if documents can
    refer to the objects of the cluster.
    """

    client: Client
    """The client that reads the objects of the cluster that verdicts need."""
    configuration: Configuration
    """The configuration of the server, which determines the verdicts."""
    live: Live
    """The current facts of the cluster, which tell whether there is room."""

    async def __call__(self, form: Mapping[str, str]) -> Values:
        """Return the values of the page's template, with the verdicts, or with an `error`."""
        text = form.get("text", "").replace("\r\n", "\n")[:MOST_TEXT]
        values = _unjudged(form, text)
        try:
            read = await asyncio.to_thread(read_documents, text)
        except UnusableInput as problem:
            return {**values, "error": str(problem)}

        nodes = await asyncio.to_thread(roots, text)
        values["text"] = masked(text, nodes)
        unread: list[str] = []
        if values["cluster"]:
            cluster, unread = await cluster_around(read, self.client, self.configuration)
        else:
            cluster = cluster_of(self.configuration, read, is_whole=False)
        routes = routes_over(self.configuration, cluster)
        default = next(iter(self.configuration.authorization.authorized_users), "console")
        asker = Asker(values["user"] or default, values["operation"])
        facts = cluster.for_templates
        judged = [await judge(routes, document, asker, facts) for document in read]

        placing = values["cluster"] and self.live.ready
        verdicts = await self.live.in_thread(_verdicts, judged, nodes, placing)

        return {
            **values,
            "verdicts": verdicts,
            "unread": unread,
            "marks": _marks(verdicts),
            "headline": _headline(verdicts),
        }


def _unjudged(form: Mapping[str, str], text: str) -> Values:
    """Return the template's values for a form whose documents have no verdicts."""
    operation = form.get("operation", "CREATE")
    return {
        "text": text,
        "operation": operation if operation in OPERATIONS else "CREATE",
        "user": form.get("user", ""),
        "cluster": "cluster" in form,
        "headline": "These documents can't be judged",
        "error": "",
        "verdicts": [],
        "marks": {},
    }


def _verdicts(
    index: Index, judged: Sequence[Judgement], nodes: Sequence[yaml.Node], placing: bool
) -> list[Values]:
    """Return the template's values for each verdict.

    `nodes` are the YAML nodes of the documents, which give the lines of problems. If there are not
    as many nodes as documents, no lines are given. With `placing`, the values also say whether a
    PodCliqueSet would have room now.
    """
    aligned = len(judged) == len(nodes)
    return [
        _shown(judgement, nodes[position] if aligned else None, index if placing else None)
        for position, judgement in enumerate(judged)
    ]


def _shown(judgement: Judgement, node: yaml.Node | None, index: Index | None) -> Values:
    """Return the template's values for one verdict.

    Without `node`, the lines of problems are not known. Without `index`, neither is the room.
    """
    api_version, kind, namespace, name = identify(judgement.document)
    verdict = judgement.verdict
    shown = {"kind": kind, "name": name or "(no name)", "namespace": namespace}
    if not verdict:
        words = f"no webhook judges {api_version} {kind}"
        return {**_NOT_JUDGED, **shown, "words": words}

    patched = judgement.patched_object
    placed = None
    if kind == POD_CLIQUE_SET.kind and verdict.allowed and index:
        placed = placement(index, judgement.document)

    state, words = _LOOKS[verdict.outcome]
    code = "" if verdict.allowed else f", {verdict.code}"
    return {
        **shown,
        "state": state,
        "words": words + code,
        "judged": True,
        "outcome": verdict.outcome,
        "problems": _problems(verdict, node),
        "diff": difference(judgement.document, patched) if patched else [],
        "effects": [
            {
                "verb": effect.action,
                "kind": effect.object["kind"],
                "name": effect.object["metadata"]["name"],
            }
            for effect in verdict.effects
        ],
        "placement": placed,
    }


_NOT_JUDGED: Values = {
    "state": "well",
    "judged": False,
    "outcome": "",
    "problems": (),
    "diff": (),
    "effects": (),
    "placement": None,
}


def _problems(verdict: Verdict, node: yaml.Node | None) -> list[Values]:
    """Return the causes and warnings of a verdict, each with its field path and line.

    The line is 0 if it is not known, and the field is "" if there is none.
    """
    causes = [(cause.field, cause.text or cause.message, "problem") for cause in verdict.causes]
    if not causes and not verdict.allowed:
        causes = [("", verdict.message, "problem" if verdict.code < 500 else "unknown")]

    causes += [(*_field_and_text(warning), "warning") for warning in verdict.warnings]

    return [
        {
            "field": path,
            "message": message,
            "state": state,
            "line": line_in_source(node, path) if node and path else 0,
        }
        for path, message, state in causes
    ]


def _field_and_text(warning: str) -> tuple[str, str]:
    """Return the field path at the beginning of a warning, or "", and the text after it."""
    match = _FIELD.match(warning)
    return (match[1], warning[match.end() :]) if match else ("", warning)


def placement(index: Index, document: Object) -> Values | None:
    """Return the template's values about the room for the PodCliqueSet `document`.

    `fits` says whether each of its gangs has room by itself, and `reasons` say why not. Return None
    if facts that decide this could not be read.
    """
    examined = examine(planned(index, document))
    if any(unknown.id in PLACEMENT for unknown in examined.unknown):
        return None
    reasons = [reason.text for reason in examined.reasons if reason.id in PLACEMENT]
    return {"fits": not reasons, "reasons": reasons}


def _marks(verdicts: Sequence[Values]) -> dict[int, str]:
    """Return the state that the page shows next to each line with a problem, by line number."""
    problems = [problem for verdict in verdicts for problem in verdict["problems"]]
    # of several states of a line, the last one counts
    problems.sort(key=lambda problem: problem["state"] == "problem")
    return {problem["line"]: problem["state"] for problem in problems if problem["line"]}


def _headline(verdicts: Sequence[Values]) -> str:
    """Return the heading of the page, which sums up the verdicts."""
    refused = sum(verdict["outcome"] == "refused" for verdict in verdicts)
    undecided = sum(verdict["outcome"] == "failed" for verdict in verdicts)
    count = counted(verdicts, "document")
    if refused:
        return f"Refused: {refused} of {count}"
    if undecided:
        return f"Not decided: {undecided} of {count}"
    if not any(verdict["judged"] for verdict in verdicts):
        return f"No webhook judges {'this document' if len(verdicts) == 1 else 'these documents'}"
    allowed = sum(verdict["judged"] for verdict in verdicts)
    return f"Allowed: {count}" if allowed == len(verdicts) else f"Allowed: {allowed} of {count}"


def saved(judged: Values, version: str) -> Values:
    """Return the content of the file that the page saves, with the documents and their verdicts.

    "Open file" reads the file again.
    """
    return {
        "version": version,
        "documents": judged["text"],
        "options": {name: judged[name] for name in ("operation", "user", "cluster")},
        "headline": judged["headline"],
        "error": judged["error"],
        "verdicts": judged["verdicts"],
    }


def _read(index: Index, query: Query) -> Values:
    """Return the empty form, or the form with the example if the query has `example`."""
    text = EXAMPLE if "example" in query else ""
    return {
        **_unjudged({"cluster": ""}, text),
        "headline": "Judge documents by the rules of the webhooks",
        "unread": [],
        "operations": OPERATIONS,
        "options": {"example": True},
    }


PAGE = ConsolePage("playground", "Playground", _read, watched=False)
