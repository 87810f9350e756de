"""CRDs that are not established, or not under all of their names."""

from typing import Any

import pytest

from app.doctor.apis import check_definitions
from app.doctor.report import Check

Object = dict[str, Any]
ACCEPTED = ("NamesAccepted", "True")
ESTABLISHED = ("Established", "True")
REASONS = {
    ("NamesAccepted", "False"): ("KindConflict", '"Gadget" is already in use'),
    ("Established", "False"): ("NotAccepted", "not all names are accepted"),
    ("NonStructuralSchema", "True"): ("Violations", "spec.versions[0].schema: Required value"),
}


def crd(
    plural: str, *conditions: tuple[str, str], group: str = "example.com", kind: str = "Gadget"
) -> Object:
    names = {"plural": plural, "kind": kind}
    listed = [
        {
            "type": name,
            "status": status,
            "reason": REASONS.get((name, status), ("", ""))[0],
            "message": text,
        }
        for name, status in conditions
        for text in [REASONS.get((name, status), ("", "fine"))[1]]
    ]
    status = {"conditions": listed, "acceptedNames": names if ESTABLISHED in conditions else {}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names},
        "status": status if conditions else None,
    }


FIRST = crd("gadgets", ACCEPTED, ESTABLISHED)
TAKEN = ("NamesAccepted", "False")


@pytest.mark.parametrize(
    ("crds", "checks"),
    [
        pytest.param([FIRST], [], id="all is well"),
        pytest.param([crd("tools")], [], id="one that has just been created"),
        pytest.param(
            [crd("tools", TAKEN, ("Established", "False"), group="other.com")],
            [],
            id="another group",
        ),
        pytest.param(
            [FIRST, crd("tools", TAKEN, ("Established", "False"))],
            [
                Check(
                    "problem",
                    'CRD tools.example.com is not established, and its API is not served: "Gadget" is already in use by gadgets.example.com (KindConflict)',
                    "Delete the CRD that nothing uses: kubectl delete crd tools.example.com, or delete gadgets.example.com.",
                )
            ],
            id="the kind of another one",
        ),
        pytest.param(
            [crd("tools", TAKEN, ("Established", "False"))],
            [
                Check(
                    "problem",
                    'CRD tools.example.com is not established, and its API is not served: "Gadget" is already in use (KindConflict)',
                    "Delete the CRD that nothing uses: kubectl delete crd tools.example.com, or delete the other CRD with these names.",
                )
            ],
            id="the kind of one that has just been deleted",
        ),
        pytest.param(
            [FIRST, crd("tools", TAKEN, ESTABLISHED, kind="Gadget")],
            [
                Check(
                    "warning",
                    'CRD tools.example.com is served without some of its names: "Gadget" is already in use by gadgets.example.com (KindConflict)',
                    "Use the names that are accepted: kubectl get crd tools.example.com -o jsonpath='{.status.acceptedNames}'. Do not delete the CRD, because that deletes its objects.",
                )
            ],
            id="one that was established before",
        ),
        pytest.param(
            [crd("tools", ACCEPTED, ("NonStructuralSchema", "True"))],
            [
                Check(
                    "problem",
                    "CRD tools.example.com is not established, and its API is not served: NamesAccepted=True: fine; NonStructuralSchema=True: spec.versions[0].schema: Required value",
                    "Run: kubectl describe crd tools.example.com",
                )
            ],
            id="no reason that is known",
        ),
    ],
)
def test_definitions(crds: list[Object], checks: list[Check]) -> None:
    assert list(check_definitions(crds, {"example.com"}).values()) == checks
