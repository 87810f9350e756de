"""Text as people give it to a dry run and to `check`: verdicts on its documents, or a reason why
there are none.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from app.base.json import pretty_json
from app.base.unusable import UnusableInput
from app.cluster.filled import cluster_of
from app.config.read import configuration_or_defaults
from app.dry_run.budget import OF_REQUEST
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, describe, judge
from app.webhooks.registry import routes_over
from tests.fuzz.mutation import Vocabulary, changed_bytes
from tests.fuzz.target import Target
from tests.fuzz.verdicts import CODES, PATHS, reviews, run_coroutine

CONFIGURATION = configuration_or_defaults(None)
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
OPERATIONS = ("CREATE", "UPDATE", "DELETE")
MOST_JUDGED = 20
TOKENS = (
    b"&a ",
    b"*a",
    b"<<: *a",
    b"\n---\n",
    b"\n- ",
    b"? ",
    b": ",
    b"!!binary ",
    b"!!python/name:x ",
    b"!!set ",
    b"!!int ",
    b"!!bool ",
    b"1:1:1:1",
    b"{",
    b"[",
    b"'",
    b'"',
    b"|\n  ",
    b"2001-01-01",
    b"0x1f",
    b".inf",
    b".nan",
    b"1e999",
    b"%YAML 1.1\n",
    b"\t",
    b"\xef\xbb\xbf",
    b"\xff",
)


def run(data: bytes) -> None:
    """The first byte selects the operation."""
    try:
        documents = read_documents(data[1:].decode("utf-8-sig"))
    except (UnicodeDecodeError, UnusableInput):
        return
    assert 0 < len(documents) <= OF_REQUEST.documents
    operation = OPERATIONS[data[0] % len(OPERATIONS)]
    run_coroutine(_judged(documents[:MOST_JUDGED], operation))


async def _judged(documents: Sequence[dict[str, Any]], operation: str) -> None:
    """As `check` does, which takes the documents for facts too."""
    routes = routes_over(CONFIGURATION, cluster_of(CONFIGURATION, documents))
    for document in documents:
        judgement = await judge(routes, document, Asker("somebody", operation=operation))
        verdict = judgement.verdict
        assert verdict is None or verdict.code in (200, *CODES), verdict
        assert pretty_json(judgement.report())
        assert all(describe(judgement))


def corpus() -> Sequence[bytes]:
    texts = [path.read_bytes() for path in sorted(EXAMPLES.rglob("*.yaml"))]
    texts += [
        yaml.safe_dump(review["request"]["object"]).encode()
        for path in PATHS
        for review in reviews(path)[:6]
    ]
    texts += [b"a: &a [*a]", b"a: &a {b: *a}", b"{a: 1}\n---\n[b]", b"kind: List\nitems: [{}, 3]"]
    return [bytes([number % len(OPERATIONS)]) + text for number, text in enumerate(texts)]


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(document for data in corpus() for document in _documents(data[1:]))


def _documents(text: bytes) -> list[object]:
    try:
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    except (LookupError, AttributeError, TypeError, ArithmeticError):
        return []  # a value that does not fit its tag


def mutate(data: bytes, random: Random) -> bytes:
    first = data[:1] or b"\0"
    text = data[1:]
    # without aliases
    documents = _documents(text) if b"*" not in text and random.random() < 0.6 else []
    try:
        if documents:
            changed = _vocabulary().changed(documents, random)
            written = yaml.dump_all if isinstance(changed, list) else yaml.dump
            return first + written(changed, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()
    except (yaml.YAMLError, ValueError, RecursionError):
        pass  # it refers to itself, or is no text
    if random.random() < 0.5:
        at = random.randint(0, len(text))
        return first + text[:at] + random.choice(TOKENS) + text[at:]
    return bytes([random.randrange(3)]) + changed_bytes(text, random)


DOCUMENTS = Target("documents", run, corpus, mutate, most=8 * 1024)
