"""Where the MNNVL annotations count.

Tests `MnnvlAnnotations` of `app/facts/grove/podcliqueset.py`.
"""

from typing import Any

import pytest

from app.facts.grove.podcliqueset import NO_ANNOTATIONS, MnnvlAnnotations, read_mnnvl

ENABLED = "grove.io/mnnvl-enabled"
SCOPE = "grove.io/mnnvl-scope"
CLASS = "grove.io/mnnvl-device-class"


@pytest.mark.parametrize(
    ("annotations", "values"),
    [
        pytest.param({}, NO_ANNOTATIONS, id="none"),
        pytest.param({"a": "b"}, NO_ANNOTATIONS, id="others"),
        pytest.param(
            {ENABLED: "true", SCOPE: "clique", CLASS: "c"},
            MnnvlAnnotations("true", "clique", "c"),
            id="all",
        ),
    ],
)
def test_reading(annotations: Any, values: MnnvlAnnotations) -> None:
    assert read_mnnvl(annotations) == values


@pytest.mark.parametrize("value", ["false", "True", "", None, True, ["true"]])
def test_nothing_but_the_text_true_enables(value: Any) -> None:
    assert not MnnvlAnnotations(value).enables
    assert MnnvlAnnotations("true").enables


@pytest.mark.parametrize(
    ("own", "inherited", "resolved"),
    [
        pytest.param(
            NO_ANNOTATIONS,
            MnnvlAnnotations("true", "clique", "c"),
            ("true", "clique", "c"),
            id="all above",
        ),
        pytest.param(
            MnnvlAnnotations("false"),
            MnnvlAnnotations("true", "clique"),
            ("false", "clique", None),
            id="opted out",
        ),
        pytest.param(
            MnnvlAnnotations(None, "clique", "d"),
            MnnvlAnnotations("true", "replica", "c"),
            ("true", "clique", "d"),
            id="each by itself",
        ),
    ],
)
def test_the_nearest_counts(
    own: MnnvlAnnotations, inherited: MnnvlAnnotations, resolved: Any
) -> None:
    assert own.over(inherited) == MnnvlAnnotations(*resolved)
