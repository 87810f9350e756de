"""The server, with a token for PodGroups and PodGangs that nobody has to write.

With an API server, its webhook configurations have another one, too. `known.py serve ...` runs the
server of the checkout that is first in PYTHONPATH.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

with contextlib.suppress(ImportError):  # up to 0.9.0
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
    """The tokens of a server, which would delete the paths with ours."""

    class Keeping(base):  # type: ignore[misc]
        def _accept(self, tokens: Collection[str]) -> None:
            super()._accept(tokens)
            self._routes.update(with_token(self._routes))

    return Keeping


def needing_token(made: Callable[..., Any]) -> Callable[..., Any]:
    """The verdicts of a server, which refuses reviews without a token."""

    def exchange_of(*arguments: Any) -> Any:
        exchange = made(*arguments)
        exchange.needs_token = lambda: True
        return exchange

    return exchange_of


if __name__ == "__main__":
    names = vars(serve)
    if "exchange_of" in names and "KNOWN_PLAIN" not in os.environ:  # not before 0.10.0
        names["exchange_of"] = needing_token(names["exchange_of"])
    served = names["served_routes"]
    names["served_routes"] = lambda *arguments: with_token(served(*arguments))
    names["ReviewTokens"] = keeping_token(names["ReviewTokens"])
    raise SystemExit(main())
