"""PodGroup of KAI: validates the names and parents of its SubGroups."""

from app.admission.review import Request
from app.admission.verdict import Verdict, judged
from app.rules.subgroups import validate_pod_group


def pod_group_webhook(request: Request) -> Verdict:
    return judged(validate_pod_group(request.object))
