"""What `stage.py` adds to a folder of CRDs."""

from pathlib import Path

import yaml

from scripts.apiserver.manifests import BUILT_IN, load
from tests.integration.stage import missing_crds

SHARDS = "schedulingshards.kai.scheduler"
TOPOLOGIES = "topologies.kai.scheduler"


async def test_a_folder_that_lacks_one_kind_of_a_group_gets_our_crd_of_it(tmp_path: Path) -> None:
    ours = {crd["metadata"]["name"]: crd for crd in load(BUILT_IN)}
    (tmp_path / "crds.yaml").write_text(yaml.safe_dump(ours[TOPOLOGIES]))
    names = {crd["metadata"]["name"] for crd in missing_crds(tmp_path)}
    assert names == ours.keys() - {TOPOLOGIES}
    assert SHARDS in names
