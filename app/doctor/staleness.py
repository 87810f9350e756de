"""When KAI evicts gangs that have fallen below their minimum.

KAI's scheduler takes the period as an argument, which each SchedulingShard may give it, and does
not start with one that is no Go duration: https://github.com/ai-dynamo/dynamo/pull/14722.
"""

import shlex

from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.kinds import POD_GANG, SCHEDULING_SHARD
from app.kube.api import Client, Selection, every
from app.objects.shape import JsonMap, map_at, text_at
from app.objects.time import signed_duration

_ARGUMENT = "default-staleness-grace-period"
_DEFAULT = "60s"
_PATCH = shlex.quote(f'{{"spec":{{"args":{{"{_ARGUMENT}":"-1s"}}}}}}')


async def check_staleness(client: Client) -> Checks:
    """Return a check of each SchedulingShard, if Grove makes gangs. Raise ClusterError."""
    if not client.served_version(SCHEDULING_SHARD) or not client.served_version(POD_GANG):
        return []
    return list(map(_check, await every(client, Selection(SCHEDULING_SHARD))))


def _check(shard: JsonMap) -> Check:
    name = text_at(map_at(shard, "metadata"), "name")
    given = map_at(shard, "spec", "args").get(_ARGUMENT, _DEFAULT)
    seconds = signed_duration(given)
    remedy = f"kubectl patch schedulingshards {shlex.quote(name)} --type merge -p {_PATCH}"
    if seconds is None:
        return problem(
            f"SchedulingShard {name} has {_ARGUMENT}: {given}, which is no duration with a unit:"
            " KAI's scheduler does not start",
            remedy,
        )
    if seconds < 0:
        return ok(f"SchedulingShard {name}: KAI leaves gangs alone that are below their minimum")
    return warning(
        f"SchedulingShard {name}: KAI evicts all pods of a gang that has been below its minimum for"
        f" {given}, while Grove replaces those that are missing",
        remedy,
    )
