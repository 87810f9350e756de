"""The known name for which a name is probably a typo."""

import pytest

from app.base.spelling import nearest

KNOWN = ("packDomain", "topologyName", "pack")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("packdomain", "packDomain"),
        ("packDomains", "packDomain"),
        ("topology_name", "topologyName"),
        ("pack", ""),
        ("zzz", ""),
        ("park", "pack"),
        ("papk", "pack"),
        ("pcak", "pack"),
        ("pakc-", ""),
        ("toplogyNmae", "topologyName"),
        ("toplogNmae", ""),
        ("packDomain" * 10, ""),
    ],
)
def test_the_nearest_name(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == meant


@pytest.mark.parametrize(
    ("name", "other", "is_typo"),
    [
        ("kai-schedular", "kai-scheduler", True),
        ("kai-sheduler", "kai-scheduler", True),
        ("kia-scheduler", "kai-scheduler", True),
        ("kaischeduler", "kai-scheduler", True),
        ("team-scheduler", "kai-scheduler", False),
        ("my-scheduler", "kai-scheduler", False),
        ("gpu-scheduler", "kai-scheduler", False),
        ("default-scheduler", "kai-scheduler", False),
        ("team-b", "team-a", False),
        ("team-alpha", "team-beta", False),
        ("node-12", "node-13", False),
        ("reserch", "research", True),
        ("PodCliqeSet", "PodCliqueSet", True),
    ],
)
def test_only_misspelt_names_are_typos(name: str, other: str, is_typo: bool) -> None:
    """Names of other things are often as similar as 0.8: no letter of them was mistyped."""
    assert nearest(name, (other,)) == (other if is_typo else "")
