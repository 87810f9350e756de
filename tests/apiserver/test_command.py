"""The command of the sandbox: what it reads before it starts anything."""

import socket
from pathlib import Path
from typing import Any

from scripts.apiserver.command import create, main
from tests.apiserver.api import CONFIGMAPS, NAMESPACE, Api, Object


def test_it_reads_more_objects_than_are_judged_at_once(tmp_path: Path, capsys: Any) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
    objects = tmp_path / "objects.yaml"
    objects.write_text("---\n".join([node] * 1001))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--state-dir", str(tmp_path), "--objects", str(objects), "--port", port]
        code = main(options)

    assert code == 1
    assert "cannot run the sandbox" in capsys.readouterr().err


async def test_owner_references_follow_the_uids_of_stored_objects(api: Api) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "of the file"}
    owner: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
    owner["metadata"] = {"name": "owner", "namespace": NAMESPACE, "uid": "of the file"}
    owned: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
    owned["metadata"] = {"name": "a", "namespace": NAMESPACE, "ownerReferences": [reference]}
    await create(api.sandbox, [owner, owned])
    stored = await api.done("GET", f"{CONFIGMAPS}/owner")
    kept = await api.done("GET", f"{CONFIGMAPS}/a")
    assert [each["uid"] for each in kept["metadata"]["ownerReferences"]] == [
        stored["metadata"]["uid"]
    ]
    assert stored["metadata"]["uid"] != "of the file"
