"""The prerequisites, before and after what Grove brings."""

from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.installation.cluster import Cluster
from tests.installation.readme import commands

pytestmark = pytest.mark.untraced

CRDS = Path(__file__).parent / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    definition = await cluster.admin.get(f"{DEFINITIONS}/{name}")
    # a new CRD has none for a moment
    entries = (definition.get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition["status"] for condition in entries}


@pytest.mark.parametrize(
    "is_grove_first", [True, False], ids=["Grove first", "grove-admission first"]
)
async def test_both_crds_of_the_group_are_established_in_either_order(
    cluster: Cluster, is_grove_first: bool
) -> None:
    """An API server establishes no CRD that has a short name of another one of its group."""
    await cluster.admin.delete(f"{DEFINITIONS}/clustertopologies.grove.io")
    await cluster.until(
        lambda: cluster.admin.find(f"{DEFINITIONS}/clustertopologies.grove.io"),
        lambda definition: not definition,
    )
    ours = [command for command in commands("Install") if "manifests/prerequisites" in command]
    binding = list(yaml.safe_load_all((CRDS / "clustertopologybindings.yaml").read_text()))
    if is_grove_first:
        await cluster.api.apply(binding)
        await cluster.run(*ours)
    else:
        await cluster.run(*ours)
        await cluster.api.apply(binding)
    established = {"NamesAccepted": "True", "Established": "True"}
    for name in ("clustertopologies.grove.io", "clustertopologybindings.grove.io"):
        status = await cluster.until(
            partial(conditions, cluster, name), lambda status: status.get("Established") == "True"
        )
        assert {key: status.get(key) for key in established} == established
