"""Credentials that are given as values."""

import ssl

from app.base.value import Value
from app.kube.impersonation import Headers


class PlainCredentials(Value):
    """A server without TLS or with a given `context`, and a fixed token or none."""

    host: str
    token: str = ""
    context: ssl.SSLContext | None = None
    proxy: str | None = None
    server_hostname: str | None = None
    impersonation: Headers = ()

    def ssl_context(self) -> ssl.SSLContext | None:
        return self.context

    def files(self) -> tuple[str, ...]:
        return ()

    async def authorization(self) -> str | None:
        return f"Bearer {self.token}" if self.token else None

    async def renew(self) -> None:
        return None
