"""Run one of the servers with which ours is compared, over TLS with the same certificate.

- floor: an ASGI app on stock uvicorn that reads the request and always answers the same bytes
- parsing: the same, but it parses the review and answers with its uid, as every webhook must
- protocol, protocol-parsing: our connections, with the answers of floor and parsing
- protocol-rule: our connections and verdicts on PodGroups, without metrics and log
- kopf: kopf's own webhook server with a handler for the PodGroup rule, without a cluster
"""

import asyncio
import functools
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn

if TYPE_CHECKING:
    from app.admission.exchange import Exchange

UID = b"705ab4f5-6393-11e8-b7cc-42010a800002"
ANSWER = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"'
    + UID
    + b'","allowed":true}}'
)


def same(_: bytes) -> bytes:
    return ANSWER


def parsed(body: bytes) -> bytes:
    return ANSWER.replace(UID, msgspec.json.decode(body)["request"]["uid"].encode())


def constant(answer: Callable[[bytes], bytes]) -> "Exchange":
    from app.admission.decide import Route
    from app.admission.exchange import Exchange, Headers
    from app.admission.verdict import ALLOWED

    class Constant(Exchange):
        def answer(
            self, route: Route, query: bytes, headers: Headers, body: bytes
        ) -> tuple[int, bytes]:
            return 200, answer(body)

    route = Route("/", "", "", "", "", frozenset(), lambda _: ALLOWED)
    return Constant({"/": route}, lambda *_: None)


def judging() -> "Exchange":
    from app.admission.exchange import Exchange
    from app.cluster.filled import cluster_of
    from app.config.schema import Configuration
    from app.webhooks.registry import routes_over

    configuration = Configuration()
    return Exchange(routes_over(configuration, cluster_of(configuration, [])), lambda *_: None)


def protocol(exchange: Callable[[], "Exchange"], port: int, certificates: Path) -> None:
    import uvloop

    from app.admission.serving import ConnectionLimits, no_report
    from app.certificates.source import file_source
    from app.server.listener import Listener, bind
    from app.server.process import settle_garbage_collector

    async def run() -> None:
        certificate = file_source(certificates, b"").certificate
        settle_garbage_collector()
        sock = bind("127.0.0.1", port)
        listener = Listener(exchange(), no_report, sock, certificate, ConnectionLimits())
        await listener.run_until_stopped()

    uvloop.run(run())


def serve(answer: Callable[[bytes], bytes], port: int, certificates: Path) -> None:
    async def app(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body = body + message.get("body", b"")
            more = message.get("more_body", False)

        content = answer(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ssl_certfile=certificates / "tls.crt",
        ssl_keyfile=certificates / "tls.key",
        log_level="warning",
        access_log=False,
    )


def kopf_server(port: int, certificates: Path) -> None:
    import kopf
    import uvloop
    from kopf._cogs.structs.ephemera import AnyMemo
    from kopf._cogs.structs.references import Insights, Resource
    from kopf._core.engines.admission import serve_admission_request
    from kopf._core.engines.indexing import OperatorIndexers
    from kopf._core.reactor.inventory import ResourceMemories

    from app.rules.subgroups import validate_pod_group

    logging.basicConfig(level=logging.WARNING)
    registry = kopf.OperatorRegistry()
    group = "scheduling.run.ai"
    version = "v2alpha2"
    plural = "podgroups"

    def validate(body: Any, **_: Any) -> None:
        findings = validate_pod_group(dict(body))
        if findings:
            raise kopf.AdmissionError(str(findings[0]), code=422)

    # Not as a decorator, which mypy would report as untyped where kopf is not installed.
    kopf.on.validate(group, version, plural, registry=registry)(validate)

    served = Resource(group, version, plural, kind="PodGroup", namespaced=True)
    answer = functools.partial(
        serve_admission_request,
        settings=kopf.OperatorSettings(),
        registry=registry,
        insights=Insights(webhook_resources={served}),
        memories=ResourceMemories(),
        memobase=AnyMemo(kopf.Memo()),
        indices=OperatorIndexers().indices,
    )
    server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=port,
        certfile=certificates / "tls.crt",
        pkeyfile=certificates / "tls.key",
    )

    async def run() -> None:
        async for _ in server(answer):
            await asyncio.Event().wait()

    uvloop.run(run())


PEERS: dict[str, Callable[[int, Path], None]] = {
    "floor": functools.partial(serve, same),
    "parsing": functools.partial(serve, parsed),
    "protocol": functools.partial(protocol, functools.partial(constant, same)),
    "protocol-parsing": functools.partial(protocol, functools.partial(constant, parsed)),
    "protocol-rule": functools.partial(protocol, judging),
    "kopf": kopf_server,
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
