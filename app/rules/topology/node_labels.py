"""Copy labels of a node to the Binding of a Pod, and so to the Pod. Source: `rules/README.md`."""

from collections.abc import Collection, Iterator, Mapping

from app.facts.grove.topology import HOSTNAME_KEY
from app.objects.edits import ABSENT, Edit
from app.objects.shape import JsonMap, labels_of

RESERVED = "topology.kubernetes.io/"
"""The prefix of Kubernetes' topology labels. A Binding cannot set them to values of its choice."""

STANDARD = (f"{RESERVED}region", f"{RESERVED}zone", HOSTNAME_KEY)
"""The labels that KEP-4742 gives every Pod."""


def binding_changes(
    binding: JsonMap, node_labels: Mapping[str, str], keys: Collection[str]
) -> Iterator[Edit]:
    """Yield the changes that give the Binding the node's value of each label in `keys`.

    The standard labels are always included. Labels with the reserved prefix get the node's value if
    the Binding has them. A label that the node lacks is removed. Other labels stay.
    """
    present = labels_of(binding)
    reserved = (key for key in present if key.startswith(RESERVED))
    for key in dict.fromkeys((*keys, *STANDARD, *reserved)):
        value = node_labels.get(key)
        if value is not None:
            yield Edit(("metadata", "labels", key), value)
        elif key in present:
            yield Edit(("metadata", "labels", key), ABSENT)
