"""Create and check the tokens in webhook paths, such as `/<token>/mutate/podclique`.

A review on a path with a valid token is treated as one from an API server. Users learn the token
too if they may read the webhook configurations, or see the error of a failed call, so it expires.
Each token begins with the time of its creation (seconds since the epoch, hexadecimal), so that all
replicas agree on its age.
"""

import re
import secrets

LIFE_SECONDS = 3600.0
"""The lifetime of a token, in seconds.

It is only an hour, because the error that an API server returns for a failed call contains the URL
of the webhook, and tenants see the error too.
"""

SKEW_SECONDS = 300.0
"""The tolerated difference between the clocks of replicas, in seconds."""

_TOKEN = re.compile(r"[0-9a-f]{8,10}-[0-9a-f]{32}")


def new_token(now: float) -> str:
    """Return a token with 128 random bits, in the form of a DNS label, as API servers require."""
    return f"{int(now):08x}-{secrets.token_hex(16)}"


def created(token: str) -> int:
    """Return the time at which `token` was created, in seconds since the epoch."""
    return int(token.partition("-")[0], 16)


def seconds_left(token: str, now: float, after: float = 0.0) -> float:
    """Return the remaining lifetime of `token`, in seconds.

    Return 0 if the token is too old, or was created before the time `after` or more than
    SKEW_SECONDS in the future.
    """
    made = created(token)
    if made > now + SKEW_SECONDS or made < after:
        return 0.0
    return max(0.0, made + LIFE_SECONDS - now)


HIDDEN = f"{0:08x}-{0:032x}"
"""A placeholder that has the form of a token and is never valid."""


def without_tokens(text: str, instead: str = "<token>") -> str:
    """Return `text`, such as an API server's error, with all tokens replaced by `instead`."""
    return _TOKEN.sub(instead, text)


def split_token(path: str) -> tuple[str, str]:
    """Return the token at the beginning of `path`, or "", and the path without it."""
    token, _, rest = path[1:].partition("/")
    if _TOKEN.fullmatch(token) is None:
        return "", path
    return token, f"/{rest}"
