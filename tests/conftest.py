"""What all tests share."""

import logging
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

# Tests run in parallel: how long one example takes says more about the machine than about the code.
settings.register_profile("parallel", deadline=None)
settings.load_profile("parallel")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Takes back what a test has changed of the root logger. Commands make it write to stderr, which is a file of the
    test's own while pytest captures it: in later tests, each line would fail with a traceback."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return (yield)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Runs tests with the mark `untraced` without coverage. The mark `no_cover` of pytest-cov has no effect in the
    workers of pytest-xdist."""
    if item.get_closest_marker("untraced") is None:
        return (yield)
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(trace)
