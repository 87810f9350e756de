"""What two rules of webhooks or policies have in common."""

import pytest

from app.doctor.policies import overlap


@pytest.mark.parametrize(
    ("patterns", "others", "expected"),
    [
        (["apps"], ["apps", "batch"], True),
        (["apps"], ["batch"], False),
        ([""], ["*"], True),
        (["*"], [""], True),
        ([], ["*"], False),
        (["CREATE"], ["*"], True),
        (["*"], ["pods"], True),
        (["*"], ["pods/status"], False),
        (["pods"], ["pods/status"], False),
        (["pods/*"], ["pods"], True),
        (["pods/*"], ["pods/status"], True),
        (["pods/*"], ["nodes/status"], False),
        (["*/status"], ["pods/*"], True),
        (["*/status"], ["pods"], False),
        (["*/*"], ["pods"], True),
        (["*/*"], ["pods/binding"], True),
    ],
)
def test_a_star_stands_for_all(patterns: list[str], others: list[str], expected: bool) -> None:
    assert overlap(patterns, others) is expected
    assert overlap(others, patterns) is expected
