"""Tokens in paths: `/<token>/mutate/podclique` in place of `/mutate/podclique`.

Only somebody who may read the webhook configurations knows the token, above all the API servers. So
a review over such a path is one of an API server. Each token begins with the time of its creation
(seconds since the epoch, hexadecimal), so that all replicas agree on its age.
"""

import re
import secrets

LIFE_SECONDS = 3600.0
"""The seconds for which a token is used.

API servers name the whole URL of a webhook in the error of a call that failed, also to tenants. A
token is therefore used for an hour only.
"""

SKEW_SECONDS = 300.0

_TOKEN = re.compile(r"[0-9a-f]{8,10}-[0-9a-f]{32}")


def new_token(now: float) -> str:
    """Return a token with 128 random bits, in the form of a DNS label, as API servers require."""
    return f"{int(now):08x}-{secrets.token_hex(16)}"


def created(token: str) -> int:
    """Return the time at which `token` was made, in seconds since the epoch."""
    return int(token.partition("-")[0], 16)


def seconds_left(token: str, now: float, after: float = 0.0) -> float:
    """Return the seconds for which `token` can be used.

    0 if it is too old, of the future, or not made `after` a time.
    """
    made = created(token)
    if made > now + SKEW_SECONDS or made < after:
        return 0.0
    return max(0.0, made + LIFE_SECONDS - now)


HIDDEN = f"{0:08x}-{0:032x}"
"""Has the form of a token, and is none."""


def without_tokens(text: str, instead: str = "<token>") -> str:
    """Return `text` without tokens, such as the error of an API server that couldn't call us."""
    return _TOKEN.sub(instead, text)


def split_token(path: str) -> tuple[str, str]:
    """Return the token that `path` begins with, or "", and the path without it."""
    token, _, rest = path[1:].partition("/")
    if _TOKEN.fullmatch(token) is None:
        return "", path
    return token, f"/{rest}"
