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
import xdist
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

import app

# Tests run in parallel: how long one example takes says more about the machine than about the code.
settings.register_profile("parallel", deadline=None)
settings.load_profile("parallel")

# Commands write for a terminal of this width. Workers of a parallel run have it from the first process.
# pytest imports readline, which sets it for new processes, and not in os.environ.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")


LIBRARIES = (
    *("aiohttp", "cel", "cryptography.x509", "fastapi", "httpx", "jinja2", "jsonpatch"),
    *("jsonschema", "prometheus_client", "pydantic", "trustme", "uvicorn"),
)
"""Whatever takes long to import. Coverage would have to look at each call that it makes."""


class ModuleScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """The tests of a module are one piece of work, unless they have groups.

    If each test were a piece, finding the next one would take time in proportion to the square of
    their number.
    """

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).split("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling:
    return ModuleScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collects without coverage, which would take nearly as long again in each worker.

    What the modules of `app` run when they are imported is measured before.
    """
    if sys.gettrace() is not None and not xdist.is_xdist_controller(session):
        with untraced():
            for name in LIBRARIES:
                importlib.import_module(name)
        for module in pkgutil.walk_packages(app.__path__, "app."):
            importlib.import_module(module.name)

    with untraced():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The workers of a run begin with what takes long, so that none of them ends much later."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Excludes what collection has made from garbage collection, and makes the collector run less
    often: modules and tests stay to the end.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


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
