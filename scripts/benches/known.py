"""The server, with a token for reviews of PodGroups that needs no API server to write it.

With one, its webhook configurations have the token. `known.py serve ...` runs the server of the
checkout that is first in PYTHONPATH.
"""

from msgspec.structs import replace

from app.admission.decide import Route
from app.cli import main
from app.server import serve

PATH = "/validate/podgroup"
TOKEN_PATH = f"/token{PATH}"


def with_token(*arguments: object) -> dict[str, Route]:
    routes = served(*arguments)
    return {**routes, TOKEN_PATH: replace(routes[PATH], trusted=True)}


if __name__ == "__main__":
    names = vars(serve)
    served = names["served_routes"]
    names["served_routes"] = with_token
    raise SystemExit(main())
