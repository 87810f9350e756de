"""Access reviews: questions that are answered and not stored. Here every user may do everything, and that is said."""

from app.sandbox.objects import Object

GROUP = "authorization.k8s.io"


def answered(review: Object) -> Object:
    """The review with the answer in its status."""
    return {**review, "status": {"allowed": True, "reason": "the sandbox authorizes nobody and refuses nobody"}}
