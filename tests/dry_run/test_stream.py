"""Dumps that are read document by document."""

import io
import itertools
import json
import tracemalloc
from typing import Any, TextIO, cast

import pytest
import yaml

from app.base.unusable import UnusableInput
from app.dry_run import documents as reading
from app.dry_run.documents import stream_documents

PODS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{n}"}, "spec": {"a": [1, {}]}}
    for n in range(3)
]
LIST = {"apiVersion": "v1", "items": PODS, "kind": "List", "metadata": {"resourceVersion": ""}}
INDENTED = """
apiVersion: v1
items:
  - kind: Pod
    text: |
      - not an item

      items:
  -
    kind: Node
kind: List
---
# only a comment
---
kind: Queue
"""


def read(text: str) -> list[dict[str, Any]]:
    return list(stream_documents(io.StringIO(text)))


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        pytest.param(json.dumps(LIST), PODS, id="a List in JSON"),
        pytest.param(json.dumps(LIST, indent=4), PODS, id="a List in JSON, as kubectl prints it"),
        pytest.param(json.dumps(PODS), PODS, id="a list in JSON"),
        pytest.param("\n".join(map(json.dumps, PODS)), PODS, id="a line for each document"),
        pytest.param(json.dumps(PODS[0]), PODS[:1], id="one document in JSON"),
        pytest.param(json.dumps({**LIST, "items": []}) + json.dumps(PODS[0]), PODS[:1], id="two"),
        pytest.param('{"kind": "Pod", "n": 12}', [{"kind": "Pod", "n": 12}], id="a number last"),
        pytest.param(yaml.safe_dump(LIST), PODS, id="a List in YAML, as kubectl prints it"),
        pytest.param(yaml.safe_dump_all(PODS), PODS, id="documents in YAML"),
        pytest.param(
            "--- # first\n" + yaml.safe_dump(PODS[0]), PODS[:1], id="text after the dashes"
        ),
        pytest.param(
            INDENTED,
            [
                {"kind": "Pod", "text": "- not an item\n\nitems:\n"},
                {"kind": "Node"},
                {"kind": "Queue"},
            ],
            id="indented items",
        ),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, reading.CHUNK])
def test_every_document_is_read(
    text: str, documents: list[dict[str, Any]], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    assert read(text) == documents


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no document found"),
        ("# nothing\n", "no document found"),
        ('{"kind": "Pod"', "',' or '}' is expected"),
        ('{"kind": "Pod" "apiVersion": "v1"}', "',' or '}' is expected"),
        ('{"kind"', "':' is expected"),
        ('{"items": [{"a": 1}', "']' is expected"),
        ('{"items": [1]}', "not a map with apiVersion and kind"),
        ('{"a": nope}', "not valid JSON"),
        ("{}]", "a map or a list of maps is expected"),
        ("[" * 100_000, "not valid JSON"),
        ("items:\n- a: [\n", "not valid YAML or JSON"),
        ("- 1\n", "not a map"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, problem: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(text)
    assert problem in str(caught.value)


class _Endless(io.TextIOBase):
    """A List of many pods, of which each read makes a part."""

    def __init__(self, count: int) -> None:
        pods = (json.dumps(PODS[0]) + "," for _ in range(count))
        self._parts = itertools.chain(['{"items": ['], pods, ["{}]}"])

    def read(self, size: int | None = -1, /) -> str:
        return next(self._parts, "")


@pytest.mark.untraced
def test_only_one_document_is_in_memory() -> None:
    """So that a dump may be larger than the memory."""
    peaks = []
    for count in (1_000, 20_000):
        tracemalloc.start()
        assert sum(1 for _ in stream_documents(cast(TextIO, _Endless(count)))) == count + 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]
