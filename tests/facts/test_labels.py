"""Keys of labels and annotations."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

APP = Path(__file__).parents[2] / "app"
KEY = re.compile(r"(grove\.io|kai\.scheduler|grove-admission\.grove\.io)/[\w.-]+(?![\w.,-])")


def keys_in(path: Path) -> Iterator[str]:
    """The keys of Grove, KAI and this product that are texts, or that a text begins with."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = KEY.match(node.value)
            if match and " " not in node.value:
                yield match[0]


def test_each_key_is_written_in_one_file() -> None:
    files = defaultdict(set)
    for path in APP.rglob("*.py"):
        if "sandbox" not in path.parts:
            for key in keys_in(path):
                files[key].add(str(path.relative_to(APP)))

    assert len(files) > 30
    assert {key: names for key, names in files.items() if len(names) > 1} == {}
