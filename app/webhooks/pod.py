"""pods: annotates a new Pod that names a Workload group, so that it is never scheduled alone.

Never rejects a Pod.
"""

from app.admission.review import ALLOWED, Request, Verdict, patched
from app.base.value import Value
from app.objects.edits import operations
from app.rules.workload.groups import admission_changes


class PodWebhook(Value):
    """`scheduler_name` is the scheduler whose Pods get a PodGroup.

    If it is None, no Pod is changed.
    """

    scheduler_name: str | None

    def __call__(self, request: Request) -> Verdict:
        if self.scheduler_name is None:
            return ALLOWED
        return patched(
            operations(request.object, admission_changes(request.object, self.scheduler_name))
        )
