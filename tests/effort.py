"""How much random or recorded input the tests take.

A run of all tests takes a part of it, always the same. With the variable THOROUGH, it takes all, and
random inputs are new in each run.
"""

import os

IS_THOROUGH = bool(os.environ.get("THOROUGH"))


def tries(usual: int, thorough: int) -> int:
    """Return how many inputs a test takes."""
    return thorough if IS_THOROUGH else usual
