"""Keys of labels and annotations are written in one file each, also within texts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

APP = Path(__file__).parents[2] / "app"
KEY = re.compile(
    r"(?<![\w/.-])(?:[\w-]+\.)*(?:grove\.io|kai\.scheduler|nvidia\.com|kubernetes\.io|k8s\.io"
    r"|kubeflow\.org|ray\.io|topograph\.run)/(?!v\d)\w[\w.-]*"
)

EXAMPLES = {"topology.kubernetes.io/rack", "kubernetes.io/hostname"}
"""Messages, and the sandbox's levels, have them as examples."""

IN_A_REMEDY = {"nvidia.com/gpu.clique"}
"""One remedy names NVIDIA's label."""

RESOURCES = {"nvidia.com/gpu", "nvidia.com/mig-"}
"""These are no labels. A matchCondition selects them in the words of CEL."""

OF_GROVES_CHART = {"app.kubernetes.io/component", "app.kubernetes.io/part-of"}
"""A selector has these and our objects too: they are not renamed together."""


def keys_in(path: Path) -> Iterator[str]:
    """The keys in the texts of a file that are no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in docstrings:
            yield from KEY.findall(text)


def test_each_key_is_written_in_one_file() -> None:
    files = defaultdict(set)
    for path in APP.rglob("*.py"):
        if "sandbox" not in path.parts:
            for key in keys_in(path):
                files[key].add(str(path.relative_to(APP)))

    assert len(files) > 60
    several = {key: names for key, names in files.items() if len(names) > 1}
    assert several.keys() == EXAMPLES | RESOURCES | OF_GROVES_CHART | IN_A_REMEDY, several
