"""PodCliqueSet: validates topology constraints and MNNVL annotations, and warns if they can't have
their effect.
"""

from app.admission.review import Request
from app.admission.verdict import Verdict, judged
from app.cluster.facts import Facts, TopologyMissing
from app.facts.kinds import COMPUTE_DOMAIN
from app.kube.api import Unavailable
from app.objects.fields import FieldError
from app.rules.dialects.design.sets import ignored, is_unchanged, read_constraints
from app.rules.mnnvl.preflight import preflight_warnings
from app.rules.mnnvl.set_annotations import ignored_annotations, validate_annotations
from app.rules.mnnvl.template import Template, read_template
from app.rules.topology.capacity import capacity_warnings, required_levels, size_warnings


class PodCliqueSetWebhook:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def __call__(self, request: Request) -> Verdict:
        findings, warnings = self._constraints(request)
        template = read_template(request.object, groups_read=self._facts.dialect().reads_groups)
        annotated, stored = self._annotations(request, template)
        findings = [*findings, *annotated]
        return judged(
            findings, [*warnings, *stored, *([] if findings else self._warnings(request, template))]
        )

    def _constraints(self, request: Request) -> tuple[list[FieldError], list[str]]:
        try:
            return self._facts.dialect().validate_set(request.object, request.old, self._facts)
        except TopologyMissing as missing:
            if is_unchanged(read_constraints(request.object, []), request.old):
                return [], [ignored(missing.message)]
            raise

    def _annotations(
        self, request: Request, template: Template
    ) -> tuple[list[FieldError], list[str]]:
        reads_groups = self._facts.dialect().reads_groups
        others = self._facts.sets_with_groups(request.namespace) if reads_groups else None
        return validate_annotations(template, request.old, others)

    def _warnings(self, request: Request, template: Template) -> list[str]:
        dialect = self._facts.dialect()
        served = self._facts.is_served(COMPUTE_DOMAIN)
        warnings = ignored_annotations(
            template, groups_read=dialect.reads_groups, compute_domains=served
        )
        warnings += dialect.set_warnings(template)
        try:
            levels, required = dialect.placement(request.object, self._facts)
        except (
            Unavailable
        ):  # the managed topology is missing, and the update doesn't change the constraints
            return warnings

        nodes = self._facts.nodes()
        warnings += preflight_warnings(template, required_levels(template, required, levels), nodes)
        warnings += capacity_warnings(template, required, levels, nodes)

        return [*warnings, *size_warnings(template, dialect.constrained(request.object))]
