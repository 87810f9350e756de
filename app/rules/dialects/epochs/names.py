"""Names of PodGangs with epochs that are too long for the labels of their PodCliques and Pods.

Grove then never creates these PodCliques, and says so only in `status.lastErrors` of the scaling
group. Later commits hash such names. Source:
https://github.com/ai-dynamo/grove/blob/616762f7/operator/api/common/namegen.go
"""

from app.facts.grove.template import GroupTemplate, Template

MOST = 63
"""Characters of the value of a label."""

EPOCH = "<epoch>"
_DIGITS = 19
"""Of an epoch, a time in nanoseconds."""


def name_warnings(template: Template) -> list[str]:
    """Return a warning if PodGangs of a PodCliqueSet have too long names.

    All its present replicas count, and of each scaling group all its present replicas, or the first
    one that is added.
    """
    start = f"{template.name}-{max(template.replicas - 1, 0)}-{EPOCH}"
    names = [start, *(f"{start}-{_last_replica(group)}" for group in template.groups)]
    longest = max(names, key=len)
    length = len(longest) - len(EPOCH) + _DIGITS
    if length <= MOST:
        return []

    return [
        f'the name of PodGang "{longest}" would be {length} characters long, {length - MOST} more'
        " than a label holds: Grove never creates its PodCliques. Use shorter names for the"
        " PodCliqueSet or its scaling groups"
    ]


def _last_replica(group: GroupTemplate) -> str:
    return f"{group.name}-{max(group.replicas - 1, group.min_available, 0)}"
