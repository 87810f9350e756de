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
        ("packDomain" * 10, ""),
    ],
)
def test_the_nearest_name(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == meant
