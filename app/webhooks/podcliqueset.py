"""Validate the size, the topology constraints and the MNNVL annotations of PodCliqueSets.

Also warn about constraints and annotations that cannot take effect, missing queues and likely
mistakes.
"""

import contextlib
from collections.abc import Collection, Sequence

from app.admission.review import Request
from app.admission.verdict import Later, Verdict, judged
from app.base.value import Value
from app.cluster.units import UnitOwners
from app.cluster.view import ClusterView
from app.facts.grove.template import Template, read_template
from app.facts.kinds import COMPUTE_DOMAIN
from app.kube.api import ClusterError
from app.objects.fields import FieldError
from app.rules.dialects.dialect import SetVerdict
from app.rules.mnnvl.sets import ignored_annotations, validate_annotations
from app.rules.mnnvl.warnings import preflight_warnings
from app.rules.queue_warnings import warnings_of_set
from app.rules.set_mistakes import minimum_findings, mistake_warnings
from app.rules.set_size import size_findings
from app.rules.topology.capacity import apart_warnings, capacity_warnings
from app.rules.topology.coverage import NO_NODES
from app.webhooks.mnnvl import PATIENCE_SECONDS, patience


class PodCliqueSetWebhook(Value):
    """The handler that validates PodCliqueSets."""

    facts: ClusterView
    units: UnitOwners | None = None
    """The reader of the claims of cliques. Without it, claims are not checked."""

    def __call__(self, request: Request) -> Verdict | Later:
        too_large = size_findings(request.object, request.old)
        if too_large:
            return judged(too_large)

        dialect = self.facts.dialect()
        groups_read = self.facts.known.reads_groups(dialect)
        template = read_template(request.object, groups_read=groups_read)
        old = None
        if request.old is not None:
            old = read_template(request.old, groups_read=groups_read)

        constraints = dialect.validate_set(template, old, self.facts)
        others = self.facts.sets_with_groups(request.namespace) if groups_read else None
        annotated, stored = validate_annotations(template, old, others)

        minimums = minimum_findings(template, is_stored=old is not None)
        findings = [*constraints.findings, *annotated]
        warnings = [*constraints.warnings, *stored, *mistake_warnings(template)]
        if old is None:
            findings += minimums
        else:  # Grove's webhook rejects these itself, and stored sets must stay scalable
            warnings += map(str, minimums)
        if not findings:
            warnings += warnings_of_set(
                template, self.facts.queues, is_whole=self.facts.known.is_whole
            )
            if template.mentions_mnnvl:
                served = self.facts.is_served(COMPUTE_DOMAIN)
                warnings += ignored_annotations(
                    template,
                    groups_read=groups_read if self.facts.known.names_grove else None,
                    compute_domains=served,
                )
            warnings += dialect.set_warnings(template)
        if not findings and constraints.is_known:
            warnings += self._placing_warnings(template, constraints)

        units = self.units
        if findings or units is None or old is not None or not template.mentions_mnnvl:
            return judged(findings, warnings)
        own_claims = {clique.name for clique in template.asking if clique.claims}
        if not own_claims:
            return judged(findings, warnings)
        return Later(lambda: _with_rivals(units, request, own_claims, warnings))

    def _placing_warnings(self, template: Template, constraints: SetVerdict) -> list[str]:
        levels = constraints.levels
        required = constraints.required
        nodes = self.facts.nodes() if template.has_gpus else NO_NODES
        warnings = apart_warnings(template, required, levels, self.facts.nodes_with, nodes)
        if not template.has_gpus:
            return warnings

        if template.mentions_mnnvl:
            warnings += preflight_warnings(
                template=template,
                required=required,
                levels=levels,
                nodes=nodes,
                nvlink=self.facts.nvlink,
            )
        return warnings + capacity_warnings(
            template=template,
            required=required,
            constrained=constraints.constrained,
            levels=levels,
            nodes=nodes,
        )


async def _with_rivals(
    units: UnitOwners, request: Request, names: Collection[str], warnings: Sequence[str]
) -> Verdict:
    """Return the verdict on a set whose cliques `names` request MNNVL and have their own claims.

    Another claim for the channel would keep the pods from starting. If the claims cannot be read,
    nothing is reported: the pods would stay pending, but nothing would be lost.
    """
    findings: list[FieldError] = []
    with contextlib.suppress(ClusterError):
        async with patience(PATIENCE_SECONDS):
            findings = await units.find_rival_of_set(request.object, request.namespace, names)
    return judged(findings, warnings)
