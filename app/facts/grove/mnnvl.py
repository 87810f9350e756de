"""The annotations about MNNVL of a PodClique, of its scaling group and of its PodCliqueSet.

A PodClique's own annotations take precedence over its scaling group's, and the scaling group's over
the set's.
"""

from typing import Any

from app.base.value import Value
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.objects.shape import JsonMap


class MnnvlAnnotations(Value):
    """The values of the annotations, which may be invalid. A missing annotation is None."""

    enabled: Any = None
    scope: Any = None
    device_class: Any = None

    @property
    def enables(self) -> bool:
        """Whether MNNVL is enabled, which needs the text "true"."""
        return bool(self.enabled == "true")

    @property
    def refuses(self) -> bool:
        """Whether MNNVL is refused, by any other value."""
        return self.enabled is not None and not self.enables

    @property
    def are_complete(self) -> bool:
        """Whether no annotation is missing, so that no inherited one counts."""
        return None not in (self.enabled, self.scope, self.device_class)

    def over(self, inherited: "MnnvlAnnotations") -> "MnnvlAnnotations":
        """Return these annotations, with missing ones taken from `inherited`."""
        if inherited is NO_ANNOTATIONS:
            return self
        return MnnvlAnnotations(
            inherited.enabled if self.enabled is None else self.enabled,
            inherited.scope if self.scope is None else self.scope,
            inherited.device_class if self.device_class is None else self.device_class,
        )


NO_ANNOTATIONS = MnnvlAnnotations()


def read_mnnvl(annotations: JsonMap) -> MnnvlAnnotations:
    """Return the MNNVL annotations among `annotations`."""
    enabled = annotations.get(MNNVL_ENABLED)
    scope = annotations.get(MNNVL_SCOPE)
    device_class = annotations.get(MNNVL_DEVICE_CLASS)
    if enabled is None and scope is None and device_class is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations(enabled, scope, device_class)


OPT_OUT = "none"
"""The value of `grove.io/mnnvl-group` with which a clique opts out.

It opts out of the group of its scaling group or set.
"""


def group_in(annotations: JsonMap) -> str | None:
    """Return the value of `grove.io/mnnvl-group`.

    It is "" to opt out, or None if there is no such annotation.
    """
    value = annotations.get(MNNVL_GROUP)
    if not isinstance(value, str):
        return None
    return "" if value == OPT_OUT else value
