"""Files that are mounted: which are read."""

import os
from pathlib import Path

import pytest

from app.base.mounted import MOST_BYTES, read_mounted


def test_only_regular_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    (tmp_path / "right").write_bytes(b"x" * MOST_BYTES)
    (tmp_path / "linked").symlink_to("right")
    for name, problem in (
        ("fifo", "not a regular file"),
        ("link", "not a regular file"),
        ("large", "larger than 1024 KiB"),
        (".", "[Dd]irectory"),
        ("none", "No such file"),
    ):
        with pytest.raises(OSError, match=problem):
            read_mounted(tmp_path / name)
    with pytest.raises(OSError, match="not a regular file"):
        read_mounted(Path("/dev/zero"))
    assert read_mounted(tmp_path / "linked") == b"x" * MOST_BYTES
