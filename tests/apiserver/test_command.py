"""The command of the sandbox: what it reads before it starts anything."""

import socket
from pathlib import Path
from typing import Any

from scripts.apiserver.command import main


def test_it_reads_more_objects_than_are_judged_at_once(tmp_path: Path, capsys: Any) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
    objects = tmp_path / "objects.yaml"
    objects.write_text("---\n".join([node] * 1001))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--state-dir", str(tmp_path), "--objects", str(objects), "--port", port]
        code = main(options)

    assert code == 1
    assert "can't run the sandbox" in capsys.readouterr().err
