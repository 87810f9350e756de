"""Tokens in paths: their form, their age, and the routes that they lead to.

Tests `app/objects/tokens.py`.
"""

import json

import pytest

from app.admission.decide import Route
from app.admission.exchange import Exchange
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict
from app.kube.api import Unavailable
from app.objects.names import is_subdomain
from app.objects.tokens import LIFE_SECONDS, SKEW_SECONDS, new_token, seconds_left, split_token
from tests.reviews import JSON_HEADERS, Seen, load

NOW = 1_800_000_000.0
TOKEN = "6b49d200-0123456789abcdef0123456789abcdef"
"""Made at the time NOW. It is fixed, because names of tests contain it."""


def test_a_token_is_long_and_random_and_api_servers_take_it_in_a_path() -> None:
    tokens = {new_token(NOW) for _ in range(1000)}
    assert len(tokens) == 1000
    assert len({token.partition("-")[0] for token in tokens}) == 1
    assert all(is_subdomain(token) for token in tokens)
    assert {len(token.partition("-")[2]) for token in tokens} == {32}


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        (f"/{TOKEN}/mutate/podclique", (TOKEN, "/mutate/podclique")),
        (f"/{TOKEN}", (TOKEN, "/")),
        (f"/{TOKEN}/", (TOKEN, "/")),
        ("/mutate/podclique", ("", "/mutate/podclique")),
        ("/", ("", "/")),
        ("", ("", "")),
        (f"/{TOKEN[:-1]}/mutate/podclique", ("", f"/{TOKEN[:-1]}/mutate/podclique")),
        (f"/{TOKEN}0/mutate/podclique", ("", f"/{TOKEN}0/mutate/podclique")),
        (f"/{TOKEN}\n/mutate/podclique", ("", f"/{TOKEN}\n/mutate/podclique")),
        (f"/x/{TOKEN}/mutate", ("", f"/x/{TOKEN}/mutate")),
    ],
)
def test_a_path_is_split_at_a_token_only(path: str, parts: tuple[str, str]) -> None:
    assert split_token(path) == parts


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        (0.0, LIFE_SECONDS),
        (1000.0, LIFE_SECONDS - 1000),
        (LIFE_SECONDS, 0.0),
        (10 * LIFE_SECONDS, 0.0),
        (-SKEW_SECONDS, LIFE_SECONDS + SKEW_SECONDS),
        (-SKEW_SECONDS - 1, 0.0),
    ],
)
def test_a_token_has_a_life(age: float, seconds: float) -> None:
    assert seconds_left(TOKEN, NOW + age) == seconds


def test_the_error_of_an_api_server_that_could_not_call_us_is_kept_without_the_token() -> None:
    url = "https://grove-admission.grove-system.svc:443/%s/mutate/podgang?timeout=5s"
    told = f'failed calling webhook "podgang": Post "{url}": refused'
    error = Unavailable(told % TOKEN, code=500)
    assert error.message == str(error) == told % "<token>"


class Handler:
    """Allows everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Verdict:
        self.asked.append(request)
        return ALLOWED


def route(path: str, group: str, kind: str, resource: str, handler: Handler) -> Route:
    operations = frozenset({"CREATE", "UPDATE"})
    return Route(path, group, kind, resource, "", operations, handler)


@pytest.mark.parametrize(
    ("path", "only_known", "trusted"),
    [
        pytest.param(f"/{TOKEN}/mutate/podclique", False, True, id="a valid token"),
        pytest.param("/mutate/podclique", False, False, id="no token"),
        pytest.param(f"/{new_token(NOW)}/mutate/podclique", False, False, id="another token"),
        pytest.param("/", False, False, id="no path"),
        pytest.param("/mutate/podclique", True, True, id="a client certificate"),
    ],
)
def test_every_path_leads_to_the_verdict_and_only_a_token_or_a_certificate_is_trusted(
    path: str, only_known: bool, trusted: bool
) -> None:
    cliques = Handler()
    clique = route("/mutate/podclique", "grove.io", "PodClique", "podcliques", cliques)
    gang = route("/mutate/podgang", "scheduler.grove.io", "PodGang", "podgangs", Handler())
    seen = Seen()
    exchange = Exchange({clique.path: clique, gang.path: gang}, seen, only_known=only_known)
    exchange.routes[f"/{TOKEN}{clique.path}"] = Route(
        clique.path,
        clique.group,
        clique.kind,
        clique.resource,
        "",
        clique.operations,
        cliques,
        trusted=True,
    )
    exchange.routes["/"] = Route(
        "/",
        clique.group,
        clique.kind,
        clique.resource,
        "",
        clique.operations,
        cliques,
        others=(clique, gang),
    )

    asked_route = exchange.route(path)
    assert asked_route is not None
    review = json.dumps(load("podclique.replica-scope-0-worker")).encode()
    answer = exchange.answer(asked_route, b"", JSON_HEADERS, review)

    assert isinstance(answer, tuple)
    assert json.loads(answer[1])["response"]["allowed"] is True
    assert [request.trusted for request in cliques.asked] == [trusted]
    assert [shown for shown, _, _ in seen.verdicts] == ["/mutate/podclique"]


def test_the_path_without_a_webhook_judges_each_kind_and_no_other() -> None:
    cliques, gangs = Handler(), Handler()
    clique = route("/mutate/podclique", "grove.io", "PodClique", "podcliques", cliques)
    gang = route("/mutate/podgang", "scheduler.grove.io", "PodGang", "podgangs", gangs)
    root = Route(
        "/",
        clique.group,
        clique.kind,
        clique.resource,
        "",
        clique.operations,
        cliques,
        others=(clique, gang),
    )
    exchange = Exchange({"/": root}, Seen())
    codes = []
    for case in (
        "podclique.replica-scope-0-worker",
        "podgang.replica-0",
        "podgroup.mixed-case-name",
    ):
        review = json.dumps(load(case)).encode()
        answer = exchange.answer(root, b"", JSON_HEADERS, review)
        assert isinstance(answer, tuple)
        response = json.loads(answer[1])["response"]
        codes.append(response.get("status", {}).get("code"))

    assert codes == [None, None, 400]
    assert (len(cliques.asked), len(gangs.asked)) == (1, 1)
