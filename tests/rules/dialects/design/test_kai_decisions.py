"""The preferred levels that we write for the PodCliqueSets of recorded decisions of KAI."""

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.topology import levels_of_cluster_topology
from app.facts.kinds import CLUSTER_TOPOLOGY, POD_CLIQUE_SET, POD_GANG
from app.objects.edits import ABSENT, Edit
from app.rules.dialects.design.podgangs import constraint_changes
from tests.builders import managed
from tests.explain.decisions.recording import RECORDINGS, Recording, recordings_of

LEFT_OUT = {
    "d2-webhook-preferred": "pending",
    "podgang-001a": "placed",
    "podgang-008a": "pending",
    "podgang-012a": "pending",
    "podgang-018a": "placed",
    "podgang-019a": "pending",
    "podgang-116a": "placed",
}
"""What KAI decided of the PodGangs whose pods differ in size, with the preferred level."""


def of_design() -> list[Recording]:
    """The recordings of PodCliqueSets of the dialect `design`, whose PodGangs have all preferred
    levels that the document asks for.
    """
    files = (RECORDINGS / "podgang.jsonl.gz", RECORDINGS / "hand.jsonl.gz")
    recordings = [recording for file in files for recording in recordings_of(file)]
    return [
        recording
        for recording in recordings
        if recording.ref.kind == POD_CLIQUE_SET.kind
        and any(item["kind"] == CLUSTER_TOPOLOGY.kind for item in recording.items)
    ]


def changes(recording: Recording) -> list[Edit]:
    """The changes to the first PodGang of a recording."""
    kinds = {item["kind"]: item for item in reversed(recording.items)}
    named = {
        item["metadata"]["name"]: item
        for item in recording.items
        if item["kind"] == POD_CLIQUE_SET.kind
    }
    gang = next(
        item
        for item in recording.items
        if item["kind"] == POD_GANG.kind and item["metadata"]["name"] == f"{recording.ref.name}-0"
    )
    levels = levels_of_cluster_topology(kinds[CLUSTER_TOPOLOGY.kind])
    topology = managed(kinds[CLUSTER_TOPOLOGY.kind]["metadata"]["name"], levels=levels)
    return constraint_changes(gang, read_pod_clique_set(named[recording.ref.name]), topology)


def test_of_recorded_podgangs_only_a_preferred_level_that_may_hinder_is_left_out() -> None:
    recordings = of_design()
    left_out = {recording.name: recording.outcome for recording in recordings if changes(recording)}
    assert len(recordings) >= 30
    assert left_out == LEFT_OUT
    for recording in recordings:
        assert changes(recording) in ([], [Edit(("spec", "topologyConstraint"), ABSENT)])
