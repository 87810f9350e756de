"""The amount of random or recorded input of the tests.

Usually, the tests take the same part of it in each run. With the variable THOROUGH, they take all of
it, and random inputs are new in each run.
"""

import os

IS_THOROUGH = bool(os.environ.get("THOROUGH"))


def tries(usual: int, thorough: int) -> int:
    """Return how many inputs a test takes."""
    return thorough if IS_THOROUGH else usual
