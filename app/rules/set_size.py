"""Limit the number of parts of a PodCliqueSet, before the parts are read.

Time and memory grow with the number of parts: a set of 9,990 cliques (1.1 MB) takes 140 ms to
judge, and the same time again whenever it changes.
"""

from app.facts.grove.podcliqueset import MOST_PARTS, size_of_set
from app.objects.fields import REASON_TOO_MANY, FieldError, Findings
from app.objects.shape import JsonMap


def size_findings(obj: JsonMap, old: JsonMap | None) -> Findings:
    """Return a finding for each bound that a PodCliqueSet exceeds.

    An UPDATE of a set that already exceeds a bound may keep or lower the number, so that sets from
    before the bound can still be scaled and corrected.
    """
    size = size_of_set(obj)
    if max(size.parts, size.clique_names) <= MOST_PARTS:
        return []

    findings: Findings = []
    before = size_of_set(old or {})
    if size.parts > max(MOST_PARTS, before.parts):
        message = (
            f"Too many: {size.parts}: a PodCliqueSet must have at most {MOST_PARTS} cliques and"
            " scaling groups"
        )
        findings.append(FieldError("spec.template.cliques", REASON_TOO_MANY, message))
    if size.clique_names > max(MOST_PARTS, before.clique_names):
        message = (
            f"Too many: {size.clique_names}: the scaling groups of a PodCliqueSet must have at most"
            f" {MOST_PARTS} cliqueNames"
        )
        field = "spec.template.podCliqueScalingGroups"
        findings.append(FieldError(field, REASON_TOO_MANY, message))
    return findings
