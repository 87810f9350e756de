"""Restrict endpoints of the tools port to clients with a certificate."""

from starlette.responses import JSONResponse

from app.admission.asgi import KNOWN_CALLER, App, Receive, Scope, Send
from app.config.schema import Server

PATHS = {
    "dry-run": ("/dry-run",),
    "metrics": ("/metrics",),
    "docs": ("/docs", "/docs/page.js", "/docs/page.css", "/openapi.json"),
}
"""The paths of each name in `server.clientCertificateFor`."""


def protected_paths(server: Server) -> frozenset[str]:
    """Return the paths, apart from those of webhooks, that need a client certificate.

    Without `server.clientCaFile`, there are none.
    """
    names = server.client_certificate_for if server.client_ca_file else ()
    return frozenset(path for name in names for path in PATHS[name])


def for_known_callers(app: App, paths: frozenset[str]) -> App:
    """Return `app` wrapped so that callers without a client certificate get 401 on `paths`."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        is_protected = scope["type"] == "http" and scope["path"] in paths
        if not is_protected or scope.get("state", {}).get(KNOWN_CALLER, False):
            await app(scope, receive, send)
            return

        problem = (
            f"{scope['path']} needs a client certificate that a CA in server.clientCaFile signed."
            " Ask the platform team for one, or to change server.clientCertificateFor"
        )
        await JSONResponse({"error": problem}, 401)(scope, receive, send)

    return guarded
