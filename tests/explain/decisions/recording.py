"""A recorded decision: the objects of a cluster, and what the KAI scheduler then decided.

The format is described in `tests/testdata/kai-decisions/README.md`.
"""

import copy
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from app.base.unusable import UnusableInput
from app.commands.explain import KINDS
from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.effort import tries

RECORDINGS = Path(__file__).parents[2] / "testdata" / "kai-decisions"
NOW = 1_800_000_000.0

Object = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """One case: `document` is the whole file."""

    document: Mapping[str, Any]

    @property
    def case(self) -> Mapping[str, Any]:
        return dict(self.document["case"])

    @property
    def name(self) -> str:
        return str(self.case["name"])

    @property
    def kind(self) -> str:
        return str(self.case["kind"])

    @property
    def kai(self) -> Mapping[str, Any]:
        return dict(self.document["kai"])

    @property
    def outcome(self) -> str:
        """`placed`, `partly` or `pending`."""
        return str(self.kai["outcome"])

    @property
    def items(self) -> list[Object]:
        """The objects before KAI's decision."""
        return list(self.document["items"])

    @cached_property
    def items_after(self) -> list[Object]:
        """The objects after KAI's decision, with its words."""
        return [
            *(
                self._decided(item)
                for item in copy.deepcopy(self.items)
                if not (item["kind"] == "Pod" and item["metadata"]["name"] in self.kai["evicted"])
            ),
            *self.kai["events"],
        ]

    def _decided(self, item: Object) -> Object:
        name = item["metadata"]["name"]
        if item["kind"] == "Pod" and self._is_of_the_gang(item) and name in self.kai["placed"]:
            item["spec"]["nodeName"] = self.kai["placed"][name]
            item["status"] = {**item.get("status", {}), "phase": "Running"}
        conditions = self.kai["conditions"].get(name)
        is_of_kai = item["apiVersion"].startswith("scheduling.run.ai/")
        if item["kind"] == "PodGroup" and is_of_kai and conditions:
            item["status"] = {**item.get("status", {}), "schedulingConditions": conditions}
        return item

    def _is_of_the_gang(self, pod: Object) -> bool:
        return bool(pod["metadata"].get("namespace") == self.document["namespace"])

    @property
    def ref(self) -> Ref:
        kind, _, name = str(self.document["ask"]).partition("/")
        return Ref(KINDS[kind], str(self.document["namespace"]), name)

    def answer(self, items: list[Object]) -> Answer:
        """What explain says of these objects. Raise LookupError if it finds nothing to explain."""
        answer = explain(Index(facts_of(items, NOW)), self.ref)
        if answer is None:
            raise LookupError(f"{self.name}: {self.ref} was not found")
        return answer


def recordings() -> Iterator[Recording]:
    """The recordings that the tests have, by kind and name."""
    for file in sorted(RECORDINGS.glob("*.jsonl.gz")):
        yield from recordings_of(file)


def some_recordings() -> Iterator[Recording]:
    """Every third of the recordings, or all if the tests are to be thorough."""
    return islice(recordings(), 0, None, tries(3, 1))


def recordings_of(file: Path) -> Iterator[Recording]:
    """The recordings of a file: one JSON document, or one on each line, also gzipped.

    Raise UnusableInput if a document is no recording.
    """
    content = file.read_bytes()
    if file.suffix == ".gz":
        content = gzip.decompress(content)
    text = content.decode()
    lines = text.splitlines() if file.name.endswith((".jsonl", ".jsonl.gz")) else [text]
    for line in lines:
        document = json.loads(line)
        if not isinstance(document, dict) or not {"case", "kai", "ask", "items"} <= set(document):
            raise UnusableInput(f"{file} is no recorded decision")
        yield Recording(document)
