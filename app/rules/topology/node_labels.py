"""Labels that a Pod gets from its node at binding. Source: `rules/README.md`."""

from collections.abc import Collection, Iterator, Mapping

from app.objects.edits import ABSENT, Edit
from app.objects.shape import JsonMap, labels_of


def binding_changes(
    binding: JsonMap, node_labels: Mapping[str, str], keys: Collection[str]
) -> Iterator[Edit]:
    """Yield the changes that give the Binding the node's value of each label in `keys`.

    A label that the node lacks is removed, whatever the caller sent. Other labels stay.
    """
    present = labels_of(binding)
    for key in keys:
        value = node_labels.get(key)
        if value is not None:
            yield Edit(("metadata", "labels", key), value)
        elif key in present:
            yield Edit(("metadata", "labels", key), ABSENT)
