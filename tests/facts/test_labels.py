"""Keys of labels and annotations are written in one file each, also within texts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"
KEY = re.compile(
    r"(?<![\w/.-])(?:[\w-]+\.)*(?:grove\.io|kai\.scheduler|nvidia\.com|kubernetes\.io|k8s\.io"
    r"|kubeflow\.org|ray\.io|topograph\.run)/(?!v\d)\w[\w.-]*"
)

EXAMPLES = {"topology.kubernetes.io/rack"}
"""A message has it as an example."""

RESOURCES = {"nvidia.com/gpu", "nvidia.com/mig-"}
"""These are no labels. A matchCondition selects them in the words of CEL."""

OF_GROVES_CHART = {"app.kubernetes.io/component", "app.kubernetes.io/part-of"}
"""A selector has these and our objects too: they are not renamed together."""


ONLY_IN_PAGES = {"grove.io/pod-template-hash"}
"""Grove's, which no rule reads."""

ONLY_IN_POLICIES = {"grove-admission.grove.io/allow-deletion"}
"""Only static policies know it."""


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
        for key in keys_in(path):
            files[key].add(str(path.relative_to(APP)))

    assert len(files) > 60
    several = {key: names for key, names in files.items() if len(names) > 1}
    assert several.keys() == EXAMPLES | RESOURCES | OF_GROVES_CHART, several


def test_pages_and_manifests_name_no_key_that_the_code_does_not_have() -> None:
    """Such as a policy that still allows a label by the name that it had."""
    known = {key for path in APP.rglob("*.py") for key in keys_in(path)}
    known |= ONLY_IN_PAGES | ONLY_IN_POLICIES
    paths = [
        path
        for folder in (APP, ROOT / "manifests")
        for kind in ("*.md", "*.yaml", "*.json")
        for path in folder.rglob(kind)
    ]
    assert len(paths) > 100
    unknown = {
        (str(path.relative_to(ROOT)), key)
        for path in [*paths, ROOT / "README.md"]
        for key in KEY.findall(path.read_text())
        if key.startswith(("grove.io", "kai.scheduler", "grove-admission."))
        and key.rstrip(".-") not in known
    }
    assert unknown == set()
