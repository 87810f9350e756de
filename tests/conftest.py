"""What all tests share."""

import contextlib
import gc
import importlib
import logging
import os
import pkgutil
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

import app

# Tests run in parallel: how long one example takes says more about the machine than about the code.
settings.register_profile("parallel", deadline=None)
settings.load_profile("parallel")

# Commands write for a terminal of this width. Workers of a parallel run have it from the first process.
os.environ.pop("COLUMNS", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without coverage, which would take nearly as long again in each worker.

    What the modules of `app` run when they are imported is measured before.
    """
    if sys.gettrace() is not None:
        for module in pkgutil.walk_packages(app.__path__, "app."):
            importlib.import_module(module.name)
    with untraced():
        return (yield)


def pytest_collection_finish() -> None:
    """Excludes what collection has made from garbage collection, and makes the collector run less
    often: modules and tests stay to the end.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs each test apart from the process around it: with the root logger as it was, and, if the
    test has the mark `untraced`, without coverage.
    """
    with (
        logging_as_it_was(),
        untraced() if item.get_closest_marker("untraced") else contextlib.nullcontext(),
    ):
        return (yield)


@contextlib.contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Commands make the root logger write to stderr, which is a file of the test's own while pytest
    captures it. In later tests, each line would fail with a traceback.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Without coverage.

    The mark `no_cover` of pytest-cov has no effect in the workers of pytest-xdist.
    """
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
