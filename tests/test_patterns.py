"""Regular expressions that meet text of others take a time that grows with its length, not with its
square: one request must not stop a replica.
"""

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from app.admission.exchange import DEFAULT_TIMEOUT, deadline

ROOT = Path(__file__).parent.parent
LENGTH = 64 * 1024
SLACK = 40
"""A linear expression takes up to 8 times as long as the loop that it is compared with, and the
cheapest quadratic one 700 times as long.
"""

SAMPLES: dict[str, str] = {
    "audit/finding.py _VALUE": 'a "b\\"c" d',
    "explain/reasons/kueue.py _UID": "Preempted (UID: 0-a, JobUID: b)",
    "admission/head.py _HOST": "[fd00::1]:8443",
    "admission/head.py _VERSION": " HTTP/1.1",
    "admission/review.py _NAMESPACE": '"namespace" : "a-1"',
    "admission/review.py _UID": '"uid" : "a-1"',
    "console/guard.py _HOST": "127.0.0.1:8443",
    "console/playground.py _FIELD": "spec.a-b[0]/c_d: x",
    "console/source.py _STEP": "a.b[c].d",
    "doctor/apis.py _NUMBER": "35+",
    "objects/tokens.py _TOKEN": "0123abcd-0123456789abcdef0123456789abcdef",
    "doctor/record.py _IMAGE": "registry/image:v0.1.2",
    "doctor/policies.py _ACCOUNTS": '"system:serviceaccounts:grove-system"',
    "doctor/replicas.py _VERSION": "a:v1.22.333",
    "dry_run/documents.py _BEGIN": "--- a",
    "dry_run/documents.py _ITEM": "   - a",
    "facts/kubernetes/claim.py _DRIVER": "device.driver  ==  'gpu.nvidia.com'",
    "facts/kubernetes/claim.py _TYPE": "device.type  ==  'gpu'",
    "objects/time.py _DURATION": "1.5h30ms",
    "objects/time.py _SIGNED": "-1.5h30ms",
    "explain/answers/whatif/edits.py _VALUE": "rack-a.1_b",
    "explain/state/label_guesses.py _NUMBER": "node-a1-22",
    "explain/queue_order/shares.py _MIG": "nvidia.com/mig-1g.10gb",
    "facts/kubernetes/gpu_sharing.py _DECIMAL": "-10.25e-3",
    "objects/resource.py _VERSION": "v1beta12",
    "objects/shape.py _INTEGER": "-1024",
    "kube/impersonation.py _UNSAFE": "a\x00\nb",
    "kube/decoders.py _TOKEN": '{"a\\"b": [1]}',
    "objects/names.py _LABEL": "ab-c-0",
    "objects/names.py _QUALIFIED": "Ab-c_d.0",
    "objects/names.py _SUBDOMAIN": "ab-c.d0.e",
    "facts/workload_of_pod.py _LIKE_HASH": "web-5d8f9c7b6",
    "facts/quantity.py _QUANTITY": "-1.5e-3",
    "rules/dialects/bindings/levels.py _DOMAIN": "ab-c0",
    "rules/set_rejections.py _LABEL_VALUE": "Ab-c_d.0",
    "rules/set_rejections.py _VARIABLE": "_A.b-0",
    "waiting/overdue.py _AGE": " (2 minutes ago)",
    "explain/reasons/placement.py _PART": "nvidia.com/mig-1g.10gb",
    "explain/reasons/scheduler_messages.py _INSUFFICIENT": "1 Insufficient nvidia.com/gpu",
    "explain/reasons/scheduler_messages.py _TAINT": "1 node(s) had untolerated taint(s) {a.b/c: d}",
    "explain/reasons/kueue_words.py _CLUSTER_QUEUE": "ClusterQueue a is inactive",
    "explain/reasons/kueue_words.py 0": "unused quota for a.b/c in flavor d, 8 more needed",
    "explain/reasons/kueue_words.py 1": (
        "insufficient quota for a.b/c in flavor d, previously considered podsets requests (0) +"
        " current podset request (32) > maximum capacity (24)"
    ),
    "explain/reasons/kueue_words.py 2": "borrowing limit for a.b/c in flavor d exceeded",
    "explain/reasons/kueue_words.py 3": "taint {a b NoSchedule <nil>} in flavor d",
    "explain/reasons/kueue_words.py 4": "flavor d doesn't match node affinity",
    "explain/reasons/kueue_words.py 5": "resource a.b/c unavailable in ClusterQueue",
    "explain/reasons/kueue_words.py 6": "requested topology level for slices: a.b/c",
    "explain/reasons/kueue_words.py 7": "no topology domains at level: a.b/c",
    "explain/reasons/kueue_words.py 8": 'topology "a" doesn\'t allow to fit any of 2 pod(s)',
    "explain/reasons/kueue_words.py 9": 'topology "a" allows',
    "explain/reasons/kueue_words.py 10": 'Flavor "a" does not contain',
    "explain/reasons/kueue_words.py 11": 'Flavor "a" does not support',
    "explain/reasons/kueue_words.py 12": "gated by: a.b/c,d",
    "explain/reasons/scaling.py _LIMITED": 'limits for nodepool "a.b"',
    "facts/kubernetes/kueue.py _ON_CLUSTER": 'The workload got reservation on "a"',
    "base/wrapping.py _HEAD": "  warning  a node",
    "base/safe_text.py _IN_JSON": "a\x00\u202eb\n",
    "base/spelling.py _DIGITS": "a12-b",
    "base/spelling.py _SEPARATORS": "a.b/c-d_e",
}
"""A text for each expression; parts of it are repeated."""

LENGTHS = {"objects/time.py _DURATION": 64, "objects/time.py _SIGNED": 64}
"""The longest text that an expression meets, because its length is checked before."""

NOT_OF_OTHERS = {
    "commands/topology.py _ROOM": "an argument of the command, which its user types",
}
"""Where no text of others arrives."""

NAMES_RE = re.compile(r"\bre\b")

Use = Callable[[Any], Any]


def uses_of(source: Path) -> Iterator[tuple[str, Use]]:
    """The regular expressions of a module: a name for each, and how it is applied to a text."""
    text = source.read_text()
    if NAMES_RE.search(text) is None:
        return  # most modules have none

    module = source.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    tree = ast.parse(text)
    name = source.relative_to(ROOT / "app").as_posix()
    named = {
        id(node.value): node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    number = 0
    for node in ast.walk(tree):
        if not is_of_re(node):
            continue
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        if id(node) in named:
            pattern = getattr(importlib.import_module(module), named[id(node)])
            for method in methods_of(tree, named[id(node)]):
                yield f"{name} {named[id(node)]}", applied(pattern, method)
            continue
        pattern = re.compile(ast.literal_eval(node.args[0]))
        method = "search" if node.func.attr == "compile" else node.func.attr
        yield f"{name} {number}", applied(pattern, method)
        number += 1


def is_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
    )


def methods_of(tree: ast.Module, name: str) -> list[str]:
    methods = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }
    assert methods, f"{name} is not used in its module"
    return sorted(methods)


def applied(pattern: re.Pattern[Any], method: str) -> Use:
    called = getattr(pattern, method)

    def use(text: str) -> Any:
        read = text.encode() if isinstance(pattern.pattern, bytes) else text
        if method == "sub":
            return pattern.subn(read[:0], read)[1]
        return list(called(read)) if method == "finditer" else called(read)

    return use


@cache
def uses() -> dict[str, list[Use]]:
    """How each expression of the product that meets text of others is applied, by its name.

    Modules are parsed when the first test needs it, and not in each worker that collects tests.
    """
    uses: dict[str, list[Use]] = {}
    for source in sorted((ROOT / "app").rglob("*.py")):
        for name, use in uses_of(source):
            if name not in NOT_OF_OTHERS:
                uses.setdefault(name, []).append(use)
    return uses


def texts(sample: str, length: int) -> Iterator[str]:
    """Texts in which a part of `sample` is repeated: as it is, cut off, and with a wrong end."""
    for begin in range(len(sample)):
        for end in range(begin + 1, min(begin + 2, len(sample)) + 1):
            repeated = sample[:begin] + sample[begin:end] * (length // (end - begin))
            yield from (repeated, repeated + sample[end:], repeated + "\x00")
    yield sample * (length // len(sample))


def is_linear(use: Use, text: str) -> bool:
    """Whether `use` takes no more time for each character than a loop would, times SLACK.

    Shorter texts come first, so that an expression that needs years is found in milliseconds.
    """
    for length in (12, 16, 20, 24, 28, 256, 2048, 16 * 1024, len(text)):
        piece = text[: length - 8] + text[-8:] if length < len(text) else text
        share = SLACK * max(len(piece), 4096) / LENGTH
        if not any(is_quick(use, piece, share) for _ in range(5)):
            return False
    return True


def is_quick(use: Use, text: str, share: float) -> bool:
    """Whether `use` takes less than `share` times the time of the loop.

    Other programs slow a machine. A call that seems slow is compared with a loop right after it.
    """
    took = seconds(use, text)
    return took < share * LOOP_SECONDS or took < share * seconds(loop, "x" * LENGTH)


def seconds(use: Use, text: str) -> float:
    """Return the processor time of a call."""
    begin = time.process_time()
    use(text)
    return time.process_time() - begin


def loop(text: str) -> object:
    """Compare each character, as the cheapest linear search in Python would."""
    return [character for character in text if character == "y"]


LOOP_SECONDS = min(seconds(loop, "x" * LENGTH) for _ in range(3))


@pytest.mark.untraced
@pytest.mark.parametrize("name", SAMPLES)
def test_an_expression_takes_a_time_that_grows_with_the_length_of_the_text(name: str) -> None:
    slow = [
        text[:40]
        for use in uses()[name]
        for text in texts(SAMPLES[name], LENGTHS.get(name, LENGTH))
        if not is_linear(use, text)
    ]
    assert slow == []


@pytest.mark.untraced
def test_each_expression_that_meets_text_of_others_has_a_sample_that_it_matches() -> None:
    assert SAMPLES.keys() == uses().keys()
    for name, sample in SAMPLES.items():
        assert all(use(sample) for use in uses()[name]), name


SLOW = {
    r"(.*?)(\d+)": "node-1",
    r"(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|ms|s|m|h))+": "1.5ms",
    r"(a|a)*b": "aab",
    r"(\w+\s*)+:": "ab c:",
}


@pytest.mark.untraced
@pytest.mark.parametrize("pattern", SLOW)
def test_an_expression_that_backtracks_is_found(pattern: str) -> None:
    use = re.compile(pattern).fullmatch
    assert not all(is_linear(use, text) for text in texts(SLOW[pattern], LENGTH))


@pytest.mark.untraced
@pytest.mark.parametrize(
    "query",
    [
        b"timeout=" + b"1" * LENGTH,
        b"timeout=" + b"1s" * (LENGTH // 2),
        b"timeout=" + b"1." * (LENGTH // 2),
        b"&" * LENGTH,
        b"timeout=&" * (LENGTH // 9),
    ],
    ids=["digits", "parts", "dots", "pairs", "empty pairs"],
)
def test_a_time_limit_of_64_kib_is_none(query: bytes) -> None:
    assert is_linear(lambda text: deadline.__wrapped__(text.encode()), query.decode())
    assert deadline(query) == DEFAULT_TIMEOUT * 0.9
