"""Run `serve` with a fixed token in the paths for PodGroups, PodGangs and PodCliqueSets.

    known.py serve ...

So a client can send reviews with a token without reading a webhook configuration. With an API
server, the server also writes its own token. The server is that of the checkout that is first in
PYTHONPATH. With the variable KNOWN_PLAIN, reviews without a token get verdicts too.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

with contextlib.suppress(ImportError):  # versions up to 0.9.0 lack it
    from app.certificates.groups import configure_openssl

    configure_openssl()

from msgspec.structs import replace

from app.admission.decide import Route
from app.cli import main
from app.server import serve

PATH = "/validate/podgroup"
GANG_PATH = "/validate/podgang"
SET_PATH = "/validate/podcliqueset"
TOKEN_PATH = f"/token{PATH}"
TOKEN_GANG_PATH = f"/token{GANG_PATH}"


def with_token(routes: Mapping[str, Route]) -> dict[str, Route]:
    known = {
        f"/token{path}": replace(routes[path], trusted=True) for path in (PATH, GANG_PATH, SET_PATH)
    }
    return {**routes, **known}


def keeping_token(base: type[Any]) -> type[Any]:
    """Return a ReviewTokens whose updates of the paths keep the fixed token."""

    class Keeping(base):  # type: ignore[misc]
        def _accept(self, tokens: Collection[str]) -> None:
            super()._accept(tokens)
            self._routes.update(with_token(self._routes))

    return Keeping


def needing_token(made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like `made` whose exchange refuses reviews without a token."""

    def exchange_of(*arguments: Any) -> Any:
        exchange = made(*arguments)
        exchange.needs_token = lambda: True
        return exchange

    return exchange_of


if __name__ == "__main__":
    names = vars(serve)
    if "exchange_of" in names and "KNOWN_PLAIN" not in os.environ:  # since 0.10.0
        names["exchange_of"] = needing_token(names["exchange_of"])
    served = names["served_routes"]
    names["served_routes"] = lambda *arguments: with_token(served(*arguments))
    names["ReviewTokens"] = keeping_token(names["ReviewTokens"])
    raise SystemExit(main())
