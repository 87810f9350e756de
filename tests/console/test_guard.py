"""Who may ask the console, one request for each rule."""

from dataclasses import dataclass, field

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.console.guard import HEADERS, MOST_BODY, Guard
from tests.console.fake import HOST, TOKEN

HOME = f"/{TOKEN}/workloads"
ORIGIN = f"http://{HOST}"
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    """What the guard lets through is answered with its path behind the token."""
    body = await Request(scope, receive).body()
    path = scope["path"].removeprefix(scope["root_path"])
    await Response(path, headers={"x-length": str(len(body)), "server": "behind"})(
        scope, receive, send
    )


@dataclass(frozen=True)
class Case:
    name: str
    path: str
    status: int
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)


CASES = (
    Case("a page with the token", HOME, 200),
    Case("the head of a page", HOME, 200, "HEAD"),
    Case("no token", "/workloads", 404),
    Case("nothing", "/", 404),
    Case("another token", "/token-of-the-tesT/workloads", 404),
    Case("a longer token", f"/{TOKEN}x/workloads", 404),
    Case("the token without a slash", f"/{TOKEN}", 404),
    Case("the token in the query", f"/workloads?token={TOKEN}", 404),
    Case("localhost", HOME, 200, headers={"host": "localhost:1"}),
    Case("loopback of IPv6", HOME, 200, headers={"host": "[::1]:8080"}),
    Case("a host without a port", HOME, 200, headers={"host": "127.0.0.1"}),
    Case(
        "a name that was made to resolve to loopback",
        HOME,
        421,
        headers={"host": "evil.example:4711"},
    ),
    Case(
        "a name that begins like localhost", HOME, 421, headers={"host": "localhost.evil.example"}
    ),
    Case("another address", HOME, 421, headers={"host": "127.0.0.2:4711"}),
    Case("an empty host", HOME, 421, headers={"host": ""}),
    Case("our own page", HOME, 200, headers={"sec-fetch-site": "same-origin"}),
    Case("an address that was typed", HOME, 200, headers={"sec-fetch-site": "none"}),
    Case("another site", HOME, 403, headers={"sec-fetch-site": "cross-site"}),
    Case("another port of this host", HOME, 403, headers={"sec-fetch-site": "same-site"}),
    Case(
        "a link on another site", HOME, 403, headers={"sec-fetch-site": "cross-site", **NAVIGATION}
    ),
    Case(
        "the entry, from the file",
        f"/{TOKEN}/",
        200,
        headers={"sec-fetch-site": "cross-site", **NAVIGATION},
    ),
    Case(
        "the entry in a frame of another site",
        f"/{TOKEN}/",
        403,
        headers={
            "sec-fetch-site": "cross-site",
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "iframe",
        },
    ),
    Case(
        "the entry, fetched by another site",
        f"/{TOKEN}/",
        403,
        headers={"sec-fetch-site": "cross-site"},
    ),
    Case("a post from our page", HOME, 200, "POST", {"origin": ORIGIN}),
    Case(
        "a form of our page", HOME, 200, "POST", {"origin": "null", "sec-fetch-site": "same-origin"}
    ),
    Case("a post without origin", HOME, 403, "POST"),
    Case("a post from a sandboxed page", HOME, 403, "POST", {"origin": "null"}),
    Case(
        "a post from a typed address",
        HOME,
        403,
        "POST",
        {"origin": "null", "sec-fetch-site": "none"},
    ),
    Case("a post from another port", HOME, 403, "POST", {"origin": "http://127.0.0.1:1"}),
    Case("a post from https", HOME, 403, "POST", {"origin": f"https://{HOST}"}),
    Case("put", HOME, 405, "PUT", {"origin": ORIGIN}),
    Case("delete", HOME, 405, "DELETE", {"origin": ORIGIN}),
    Case("options", HOME, 405, "OPTIONS", {"origin": "https://evil.example"}),
)


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(Guard(behind, TOKEN)), base_url=ORIGIN)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_who_may_ask(case: Case) -> None:
    async with client() as asking:
        content = b"a=b" if case.method == "POST" else None
        answer = await asking.request(case.method, case.path, headers=case.headers, content=content)
    assert answer.status_code == case.status
    if case.status != 200:
        assert answer.content == b""
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline() -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in HEADERS["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }


async def test_long_bodies_are_refused() -> None:
    async with client() as asking:
        fits = await asking.post(HOME, headers={"origin": ORIGIN}, content=b"x" * MOST_BODY)
        long = await asking.post(HOME, headers={"origin": ORIGIN}, content=b"x" * (MOST_BODY + 1))
        unknown = await asking.post(
            HOME, headers={"origin": ORIGIN, "content-length": "many"}, content=b"x"
        )
    assert (fits.headers["x-length"], long.status_code, unknown.status_code) == (
        str(MOST_BODY),
        413,
        411,
    )
