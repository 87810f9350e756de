"""What a person may have meant who asks about an object that does not exist.

Tests `app/explain/output/names.py`.
"""

import pytest

from app.explain.output.names import meant
from app.facts.identity import Ref


def sets(*names: str) -> list[Ref]:
    return [Ref("PodCliqueSet", *name.split("/")) for name in names]


@pytest.mark.parametrize(
    ("others", "hints"),
    [
        pytest.param(sets(), [], id="there is nothing"),
        pytest.param(
            sets("b/llm"), ["the name exists in namespace b: add -n b"], id="in another namespace"
        ),
        pytest.param(
            sets("c/llm", "b/llm", "a/lln"),
            ["the name exists in namespaces b and c: add -n b"],
            id="in other namespaces",
        ),
        pytest.param(
            [Ref("PodGang", "b", "llm"), Ref("PodGang", "a", "llx")], [], id="another kind"
        ),
        pytest.param(sets("a/llx", "b/llmm"), ["did you mean llx?"], id="a similar name"),
        pytest.param(
            sets("a/llm1", "a/llm2", "a/llm3", "a/llm4"),
            ["did you mean llm1 or llm2 or llm3?"],
            id="several similar names",
        ),
        pytest.param(
            sets("a/llm-of-a-team-with-a-long-name", "a/train"),
            ["did you mean llm-of-a-team-with-a-long-name?"],
            id="a name that begins so",
        ),
        pytest.param(
            sets("a/train", "a/batch", "b/lln"),
            ["namespace a has batch and train"],
            id="no similar name",
        ),
        pytest.param(
            sets("a/lamp", "a/film"),
            ["namespace a has film and lamp"],
            id="two mistakes in three",
        ),
        pytest.param(
            sets("b/lln", "c/lln2"),
            ["did you mean lln in namespace b?"],
            id="a similar name elsewhere",
        ),
    ],
)
def test_hints(others: list[Ref], hints: list[str]) -> None:
    assert list(meant(Ref("PodCliqueSet", "a", "llm"), others)) == hints
