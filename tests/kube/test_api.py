"""Errors of the API server: which calls may succeed later."""

import pytest

from app.kube.api import Rejected


@pytest.mark.parametrize(
    ("message", "code", "passes"),
    [
        pytest.param("Unauthorized", 401, True, id="an expired token"),
        pytest.param(
            "unable to create new content in namespace a because it is being terminated",
            403,
            True,
            id="a namespace that is being deleted",
        ),
        pytest.param(
            "cannot find RESTMapping for APIVersion grove.io/v1alpha1 Kind PodGang",
            422,
            True,
            id="the kind of a new CRD",
        ),
        pytest.param("pods is forbidden", 403, False, id="a missing right"),
        pytest.param("spec: Required value", 422, False, id="an invalid object"),
        pytest.param("too large", 413, False, id="a large object"),
    ],
)
def test_a_rejected_call_may_succeed_later(message: str, code: int, passes: bool) -> None:
    assert Rejected(message, code=code).passes is passes
