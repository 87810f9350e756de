"""Read KAI's SchedulingShards: one scheduler for each node pool, with its own settings.

The fields and their defaults are taken from
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503/pkg/apis/kai/v1/schedulingshard_types.go.
"""

from collections.abc import Iterator, Mapping

from app.facts.identity import ClusterScoped, read_name
from app.facts.labels import KAI_BACKGROUND
from app.objects.shape import JsonMap, map_at, map_of, text_at
from app.objects.time import duration

_MOST_SHOWN = 5

_PLUGINS = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
}
"""KAI's own plugins, with their default priorities."""

_ACTIONS = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}
"""KAI's own actions, with their default priorities."""

_BACKGROUND = "backgroundpods"
"""The plugin for background pods, which is on by default since 0.18."""
_BACKGROUND_PODS = f"{KAI_BACKGROUND}=true"
"""The default selector of background pods."""

_ONLY_REPORTS = ("reflectjoborder", "snapshot")
"""The plugins that only report, and change neither order nor placement."""
_WITHOUT_DEFAULTS = ("usageDBConfig", "queueDepthPerAction", "minRuntime")
"""Further fields that change the order of gangs. They are not set by default."""


class Shard(ClusterScoped):
    """A SchedulingShard: KAI's scheduler for one node pool."""

    kind = "SchedulingShard"
    pool: str = ""
    """The node pool of the shard, or "" for the nodes without a pool."""
    has_background: bool = True
    """Whether the scheduler treats pods with KAI's default label as background pods."""
    sets: tuple[str, ...] = ()
    """The settings that may change the order of gangs or their nodes, such as `plugins (ray)`.

    KAI's own plugins and actions with their default settings are not listed.
    """
    reclaim_after: float = 0.0
    """The `reclaimMinRuntime` in seconds of queues that set none."""
    preempt_after: float = 0.0
    """The `preemptMinRuntime` in seconds of queues that set none."""
    consolidates: bool = True
    """Whether the scheduler moves running pods to make room for others."""


def read_shard(obj: JsonMap) -> Shard:
    """Read a SchedulingShard."""
    spec = map_at(obj, "spec")
    after = map_at(spec, "minRuntime")
    return Shard(
        read_name(obj),
        text_at(spec, "partitionLabelValue"),
        has_background=_has_background(map_at(spec, "plugins", _BACKGROUND)),
        sets=tuple(_sets(spec)),
        reclaim_after=duration(after.get("reclaimMinRuntime")),
        preempt_after=duration(after.get("preemptMinRuntime")),
        consolidates=_consolidates(spec),
    )


def _consolidates(spec: JsonMap) -> bool:
    """Return whether consolidation is enabled, which it is by default unless pods are spread."""
    if map_at(spec, "args").get("max-consolidation-preemptees") == "0":
        return False
    is_spread = "spread" in map_at(spec, "placementStrategy").values()
    enabled = map_at(spec, "actions", "consolidation").get("enabled")
    return enabled if isinstance(enabled, bool) else not is_spread


def _has_background(plugin: JsonMap) -> bool:
    selector = map_at(plugin, "arguments").get("labelSelector", _BACKGROUND_PODS)
    return plugin.get("enabled") is not False and selector == _BACKGROUND_PODS


def _sets(spec: JsonMap) -> Iterator[str]:
    changed = {"plugins": _changed(spec, "plugins", _PLUGINS)}
    changed["actions"] = _changed(spec, "actions", _ACTIONS)
    changed |= {field: sorted(map_at(spec, field)) for field in _WITHOUT_DEFAULTS}
    strategy = map_at(spec, "placementStrategy")
    changed["placementStrategy"] = [f"{of}: spread" for of in strategy if strategy[of] == "spread"]
    for field, names in changed.items():
        if names:
            more = len(names) - _MOST_SHOWN
            and_more = f" and {more} more" if more > 0 else ""
            yield f"{field} ({', '.join(names[:_MOST_SHOWN])}{and_more})"


def _changed(spec: JsonMap, field: str, defaults: Mapping[str, int]) -> list[str]:
    """Return the names of the plugins or actions whose settings differ from KAI's defaults."""
    given = {
        name: map_of(setting)
        for name, setting in map_at(spec, field).items()
        if name not in _ONLY_REPORTS
    }
    if _has_background(given.get(_BACKGROUND, {})):
        given.pop(_BACKGROUND, None)
    return sorted(
        name for name, setting in given.items() if not _is_default(setting, defaults.get(name))
    )


def _is_default(setting: JsonMap, priority: int | None) -> bool:
    enabled = setting.get("enabled")
    if priority is None:
        return enabled is False
    return (
        enabled in (None, True)
        and setting.get("priority") in (None, priority)
        and not setting.get("arguments")
    )
