"""The kinds of API server that tests run on: ours, and a real one where its binaries are."""

import os

from scripts.apiserver.real import find_binaries


def without_real() -> str:
    """Return why there is no real API server on this machine, "" if there is one."""
    try:
        find_binaries(os.environ)
    except FileNotFoundError as missing:
        return f"needs a real API server: {missing}"
    return ""


KINDS = ["sandbox"] if without_real() else ["sandbox", "real"]
"""Parameters of fixtures. `integration/test_real.py` says why `real` is missing, once for all."""
