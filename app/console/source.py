"""Find the lines of fields in YAML documents, mask Secrets, and show what a patch changes."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STEP = re.compile(r"[^.\[\]]+|\[[^\[\]]*\]")
MASK = '"***"'
"""The text that replaces each value of a Secret."""


def roots(text: str) -> list[yaml.Node]:
    """Return the YAML node of each document, in the order in which `read_documents` returns them.

    `read_documents` must have accepted the text.
    """
    nodes: list[yaml.Node] = []
    for node in yaml.compose_all(text, Loader=_LOADER):
        if isinstance(node, yaml.MappingNode):
            nodes += _items(node) or [node]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return nodes


def _items(node: yaml.MappingNode) -> list[yaml.Node]:
    """Return the nodes of the items of a List, or [] if `node` is another kind of object."""
    fields = _fields(node)
    kind = fields.get("kind")
    items = fields.get("items")
    is_list = isinstance(kind, yaml.ScalarNode) and str(kind.value).endswith("List")
    return list(items.value) if is_list and isinstance(items, yaml.SequenceNode) else []


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {str(key.value): value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def line_in_source(root: yaml.Node, path: str) -> int:
    """Return the line, from 1, of the field at a path such as `spec.cliques[0].name`.

    If the field does not exist, return the line of its nearest existing parent.
    """
    node = root
    line = int(root.start_mark.line)
    for step in _STEP.findall(path):
        name = step.strip("[]")
        if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
            node = node.value[int(name)]
            line = int(node.start_mark.line)
            continue
        keys = (
            [pair for pair in node.value if pair[0].value == name]
            if isinstance(node, yaml.MappingNode)
            else []
        )
        if not keys:
            break
        line = int(keys[0][0].start_mark.line)
        node = keys[0][1]

    return line + 1


def masked(text: str, nodes: list[yaml.Node]) -> str:
    """Return the text with each value of each Secret replaced by MASK."""
    # a set, because a value that aliases refer to is found several times
    spans = sorted({span for node in nodes for span in _secrets(node)})
    for start, end in reversed(spans):
        length = len(text[start:end].rstrip())
        text = f"{text[:start]}{MASK}{text[start + length :]}"
    return text


def _secrets(node: yaml.Node) -> Iterator[tuple[int, int]]:
    """Yield the start and end in the text of each value of a Secret, or nothing for other kinds."""
    if not isinstance(node, yaml.MappingNode):
        return
    fields = _fields(node)
    kind = fields.get("kind")
    if not isinstance(kind, yaml.ScalarNode) or kind.value != "Secret":
        return
    for name in ("data", "stringData"):
        values = fields.get(name)
        for _, value in values.value if isinstance(values, yaml.MappingNode) else ():
            yield int(value.start_mark.index), int(value.end_mark.index)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the differences between an object before and after a patch, as lines of YAML.

    Each line has a `text` and a `mark`: "+" for an added line, "-" for a removed one, " " for an
    unchanged one, and "…" where unchanged lines are left out.
    """
    old, new = (yaml.safe_dump(dict(obj), sort_keys=False).splitlines() for obj in (before, after))
    lines: list[dict[str, str]] = []
    for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        if line.startswith("@@"):
            lines += [{"mark": "…", "text": ""}] if lines else []
        else:
            lines.append({"mark": line[0], "text": line[1:]})
    return lines
