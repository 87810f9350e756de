"""One call of one webhook: what is sent, and what each answer means.

The webhook is a local HTTPS server.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scripts.apiserver import pki
from scripts.apiserver.admission.webhook import (
    CallFailedError,
    Hook,
    WebhookAnswer,
    WebhookTransport,
    hooks_of,
)
from scripts.apiserver.sandbox import LoopbackServer
from tests.apiserver.api import Object

REQUEST = {"uid": "u-1", "operation": "CREATE"}
OPERATIONS = [{"op": "add", "path": "/a", "value": 1}]


def encoded(value: Any) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()


def review(**response: Any) -> Object:
    """An answer that allows; what is None is omitted."""
    fields = {"uid": "u-1", "allowed": True, **response}
    present = {key: value for key, value in fields.items() if value is not None}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": present}


class Webhook:
    """Answers every call with `body` (bytes as they are, anything else as JSON), with no answer
    where it is None.
    """

    def __init__(self) -> None:
        self.body: Any = review()
        self.code = 200
        self.media_type = "application/json"
        self.calls: list[tuple[str, dict[str, str], Object]] = []
        self.url = ""
        self.address = ""
        self.ca = b""

    async def answer(self, request: Request) -> Response:
        self.calls.append(
            (
                request.url.path,
                dict(request.query_params),
                msgspec.json.decode(await request.body()),
            )
        )
        if self.body is None:
            await asyncio.Event().wait()
        content = self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)
        return Response(content, status_code=self.code, media_type=self.media_type)

    def hook(self, *, mutating: bool = True, **item: Any) -> Hook:
        client = {"url": f"{self.url}/there", "caBundle": base64.b64encode(self.ca).decode()}
        kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
        webhook = {"name": "w.example.com", "clientConfig": client, "sideEffects": "None", **item}
        return hooks_of({"kind": kind, "webhooks": [webhook]})[0]


@asynccontextmanager
async def listening(folder: Path, *names: str) -> AsyncIterator[Webhook]:
    """A webhook with a certificate for `names`, for loopback unless told."""
    webhook = Webhook()
    pair = pki.issue(names) if names else pki.issue()
    app = Starlette(routes=[Route("/{path:path}", webhook.answer, methods=["POST"])])
    server = LoopbackServer(app, "127.0.0.1", 0, *pair.write(folder, "webhook"))
    webhook.address = f"127.0.0.1:{server.port}"
    webhook.ca = pair.ca
    webhook.url = f"https://{webhook.address}"
    server.start()
    try:
        yield webhook
    finally:
        await server.stop(lambda: None)


@pytest_asyncio.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with listening(tmp_path) as webhook:
        yield webhook


@asynccontextmanager
async def reaching(address: str = "") -> AsyncIterator[WebhookTransport]:
    """A transport that reaches every Service at `address` (`127.0.0.1:1`); "" for none."""

    def find_service(namespace: str, name: str, port: int) -> str:
        if not address:
            raise LookupError(f'no endpoints available for service "{name}"')
        return address

    transport = WebhookTransport(find_service)
    try:
        yield transport
    finally:
        await transport.close()


async def failure(hook: Hook, address: str = "") -> str:
    async with reaching(address) as transport:
        with pytest.raises(CallFailedError) as caught:
            await transport.call(hook, REQUEST)
    return str(caught.value)


# What is sent.


async def test_a_review_is_sent(webhook: Webhook) -> None:
    async with reaching() as transport:
        await transport.call(webhook.hook(timeoutSeconds=7), REQUEST)
        await transport.call(webhook.hook(), REQUEST)
    sent = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}
    assert webhook.calls == [
        ("/there", {"timeout": "7s"}, sent),
        ("/there", {"timeout": "10s"}, sent),
    ]


SERVICE = {"name": "hook", "namespace": "home", "path": "/validate", "port": 8443}
CALLED = 'Post "https://hook.home.svc:8443/validate?timeout=10s"'


def at_service(webhook: Webhook, **service: Any) -> Object:
    return {"service": {**SERVICE, **service}, "caBundle": base64.b64encode(webhook.ca).decode()}


async def test_a_webhook_at_a_service_is_reached_at_its_endpoint(tmp_path: Path) -> None:
    async with listening(tmp_path, "hook.home.svc") as webhook:
        async with reaching(webhook.address) as transport:
            await transport.call(webhook.hook(clientConfig=at_service(webhook)), REQUEST)
            await transport.call(webhook.hook(clientConfig=at_service(webhook, path=None)), REQUEST)
        assert [path for path, _, _ in webhook.calls] == ["/validate", "/"]


async def test_the_certificate_must_be_the_services(webhook: Webhook) -> None:
    told = await failure(webhook.hook(clientConfig=at_service(webhook)), webhook.address)
    assert told.startswith(f"failed to call webhook: {CALLED}: ")
    assert "Hostname mismatch" in told


async def test_a_service_needs_an_endpoint(webhook: Webhook) -> None:
    why = 'no endpoints available for service "hook"'
    hook = webhook.hook(clientConfig=at_service(webhook))
    assert await failure(hook) == f"failed to call webhook: {CALLED}: {why}"


async def test_an_idle_connection_is_closed_with_the_webhook(tmp_path: Path) -> None:
    """A server that stops waits for its clients' end of TLS, half a minute here."""
    pair = pki.issue()
    certificate, key = pair.write(tmp_path, "webhook")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        body = msgspec.json.encode(review())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server,
        reaching() as transport,
    ):
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = {"url": url, "caBundle": base64.b64encode(pair.ca).decode()}
        item = {"name": "w", "clientConfig": client}
        (hook,) = hooks_of({"kind": "MutatingWebhookConfiguration", "webhooks": [item]})
        await transport.call(hook, REQUEST)
        async with asyncio.timeout(240):
            writers[0].close()
            await writers[0].wait_closed()


# No answer.


async def test_a_webhook_that_takes_too_long(webhook: Webhook) -> None:
    webhook.body = None
    called = f'Post "{webhook.url}/there?timeout=1s"'
    told = f"failed to call webhook: {called}: context deadline exceeded"
    assert await failure(webhook.hook(timeoutSeconds=1)) == told


async def test_nobody_listens(tmp_path: Path) -> None:
    async with listening(tmp_path) as webhook:
        hook = webhook.hook()
    why = f"Connect call failed ('127.0.0.1', {webhook.address.rpartition(':')[2]})"
    assert (
        await failure(hook)
        == f'failed to call webhook: Post "{webhook.url}/there?timeout=10s": {why}'
    )


@pytest.mark.parametrize(
    ("bundle", "told"),
    [
        pytest.param(pki.issue().ca, "certificate verify failed", id="another authority"),
        pytest.param(b"no certificate", "unable to load root certificates", id="no certificate"),
        pytest.param(b"\xff", "unable to load root certificates", id="no text"),
        pytest.param(
            b"", "certificate verify failed", id="none, where only the system's authorities count"
        ),
    ],
)
async def test_certificates_that_prove_nothing(webhook: Webhook, bundle: bytes, told: str) -> None:
    client = {"url": webhook.url, "caBundle": base64.b64encode(bundle).decode()}
    assert told in await failure(webhook.hook(clientConfig=client))


INVALID = "received invalid webhook response: "
PAIR = f"{INVALID}response.patch needs response.patchType JSONPatch, and the other way round"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", f"{INVALID}: Invalid JSON: ", id="nothing"),
        pytest.param(b"hello", f"{INVALID}: Invalid JSON: ", id="no JSON"),
        pytest.param([], f"{INVALID}: Input should be an object", id="a list"),
        pytest.param({}, f"{INVALID}apiVersion: Field required", id="an empty object"),
        pytest.param(
            {**review(), "kind": "Other"},
            f"{INVALID}kind: Input should be 'Admission",
            id="another kind",
        ),
        pytest.param(
            {**review(), "apiVersion": "admission.k8s.io/v1beta1"},
            f"{INVALID}apiVersion: Input should be 'admission.k8s.io/v1'",
            id="an old version",
        ),
        pytest.param(
            {**review(), "response": None},
            f"{INVALID}response: Input should be an object",
            id="no response",
        ),
        pytest.param(
            {**review(), "response": "yes"},
            f"{INVALID}response: Input should be an object",
            id="a text as response",
        ),
        pytest.param(
            review(uid="u-2"), f'{INVALID}expected response.uid="u-1", got "u-2"', id="another uid"
        ),
        pytest.param(
            review(uid=None), f'{INVALID}expected response.uid="u-1", got ""', id="no uid"
        ),
        pytest.param(
            review(allowed="yes"),
            f"{INVALID}response.allowed: Input should be a valid boolean",
            id="a text as allowed",
        ),
        pytest.param(
            review(status="no"),
            f"{INVALID}response.status: Input should be an object",
            id="a text as status",
        ),
        pytest.param(review(patch=encoded(OPERATIONS)), PAIR, id="a patch without a type"),
        pytest.param(review(patchType="JSONPatch"), PAIR, id="a type without a patch"),
        pytest.param(
            review(patch=encoded(OPERATIONS), patchType="Merge"),
            f"{INVALID}response.patchType: Input should be 'JSONPatch'",
            id="another type of patch",
        ),
        pytest.param(
            review(patch="x", patchType="JSONPatch"),
            f"{INVALID}response.patch: ",
            id="a patch that is not base64",
        ),
        pytest.param(
            review(patch=base64.b64encode(b"{no").decode(), patchType="JSONPatch"),
            f"{INVALID}response.patch: Invalid JSON: ",
            id="a patch that is not JSON",
        ),
        pytest.param(
            review(patch=encoded({}), patchType="JSONPatch"),
            f"{INVALID}response.patch: Input should be a valid array",
            id="a patch that is no list",
        ),
    ],
)
async def test_unusable_responses(webhook: Webhook, body: Any, message: str) -> None:
    webhook.body = body
    assert (await failure(webhook.hook())).startswith(message)


async def test_validating_webhooks_do_not_patch(webhook: Webhook) -> None:
    webhook.body = review(patch=encoded(OPERATIONS), patchType="JSONPatch")
    assert (
        await failure(webhook.hook(mutating=False))
        == f"{INVALID}validating webhook may not return response.patch"
    )


@pytest.mark.parametrize("code", [302, 404, 418, 500, 503])
async def test_codes_that_are_no_answer(webhook: Webhook, code: int) -> None:
    """Redirections are not followed."""
    webhook.code = code
    webhook.body = b"oops\n"
    webhook.media_type = "text/plain"
    expected = f"failed to call webhook: the server responded with the status code {code}: oops"
    assert await failure(webhook.hook()) == expected


# Answers.


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param({}, {"allowed": True}, id="yes"),
        pytest.param({"allowed": False}, {"allowed": False}, id="no"),
        pytest.param({"allowed": None}, {"allowed": False}, id="what isn't said is no"),
        pytest.param(
            {"allowed": False, "status": {"message": "m", "code": 409}},
            {"allowed": False, "status": {"message": "m", "code": 409}},
            id="no, with a reason",
        ),
        pytest.param(
            {"warnings": ["a", "b"]},
            {"allowed": True, "warnings": ["a", "b"]},
            id="yes, with warnings",
        ),
        pytest.param(
            {"patch": encoded(OPERATIONS), "patchType": "JSONPatch"},
            {"allowed": True, "patch": OPERATIONS, "patchType": "JSONPatch"},
            id="a patch",
        ),
        pytest.param(
            {"patch": encoded([]), "patchType": "JSONPatch"},
            {"allowed": True, "patch": [], "patchType": "JSONPatch"},
            id="a patch of nothing",
        ),
    ],
)
async def test_answers(webhook: Webhook, response: Object, expected: Object) -> None:
    webhook.body = review(**response)
    async with reaching() as transport:
        answer = await transport.call(webhook.hook(), REQUEST)
    assert answer.model_dump(exclude_none=True) == {"uid": "u-1", **expected}


async def test_any_code_of_success_will_do(webhook: Webhook) -> None:
    webhook.code = 201
    async with reaching() as transport:
        assert await transport.call(webhook.hook(), REQUEST) == WebhookAnswer(
            uid="u-1", allowed=True
        )


# Configurations.


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({}, {}, id="unless told"),
        pytest.param({"failurePolicy": "Ignore"}, {"fails_closed": False}, id="a failure policy"),
        pytest.param(
            {"reinvocationPolicy": "IfNeeded"},
            {"reinvocation_policy": "IfNeeded"},
            id="a reinvocation policy",
        ),
        pytest.param({"matchPolicy": "Exact"}, {"match_policy": "Exact"}, id="a match policy"),
        pytest.param({"sideEffects": "None"}, {"side_effects": "None"}, id="side effects"),
        pytest.param({"timeoutSeconds": 3}, {"timeout_seconds": 3}, id="a timeout"),
    ],
)
def test_settings_of_a_webhook(item: Object, expected: Object) -> None:
    webhook = {"name": "w", "clientConfig": {}, **item}
    configuration = {"kind": "ValidatingWebhookConfiguration", "webhooks": [webhook]}
    unless_told = {
        "name": "w",
        "is_mutating": False,
        "fails_closed": True,
        "reinvocation_policy": "Never",
        "match_policy": "Equivalent",
        "side_effects": "",
        "timeout_seconds": 10,
    }
    settings = {**unless_told, **expected}
    (hook,) = hooks_of(configuration)
    assert {name: getattr(hook, name) for name in settings} == settings


def test_a_configuration_without_webhooks() -> None:
    assert hooks_of({"kind": "MutatingWebhookConfiguration"}) == []
