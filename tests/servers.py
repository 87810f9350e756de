"""The kinds of API server for tests: the sandbox, and a real one if its binaries are installed."""

import os

from scripts.apiserver.real import find_binaries


def without_real() -> str:
    """Return why tests cannot use a real API server. "" if they can."""
    try:
        find_binaries(os.environ)
    except FileNotFoundError as missing:
        return f"needs a real API server: {missing}"
    return ""


KINDS = ["sandbox"] if without_real() else ["sandbox", "real"]
"""Parameters of fixtures. `integration/test_real.py` says why `real` is missing, once for all."""
