"""Hooks and fixtures of all tests."""

import contextlib
import gc
import importlib
import importlib.util
import logging
import os
import pkgutil
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

import app
from tests.effort import IS_THOROUGH

# Until everything is collected: of what is made until then, nothing is given back. A process that
# only hands out tests to others never collects any, and stays without it.
gc.disable()

# Tests run in parallel: how long one example takes says more about the machine than about the code.
settings.register_profile("parallel", deadline=None, derandomize=not IS_THOROUGH)
settings.load_profile("parallel")

# Commands write for a terminal of this width. Workers of a parallel run have it from the first process.
# pytest imports readline, which sets it for new processes, and not in os.environ.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# httpx asks for it at each request. Python would look for it in all folders of its path, 20,000 times
# in a run of all tests: it doesn't keep in mind that a module is missing.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

TESTS = Path(__file__).parent

LIBRARIES = (
    *("aiohttp", "cel", "cryptography.x509", "fastapi", "httpx", "jinja2", "jsonpatch"),
    *("jsonschema", "prometheus_client", "pydantic", "trustme", "uvicorn"),
)
"""Whatever takes long to import. Coverage would have to look at each call that it makes."""


class Trace:
    """Coverage's trace functions, for this thread and for those that it starts; stopped at first.

    The mark `no_cover` of pytest-cov has no effect in the workers of pytest-xdist.
    """

    def __init__(self) -> None:
        self.is_wanted = True
        """Whether the test that runs is measured: it has no mark `untraced`."""
        self._here = sys.gettrace()
        self._in_threads = threading.gettrace()

        sys.settrace(None)
        threading.settrace(None)

    @property
    def is_there(self) -> bool:
        return self._here is not None

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Measure what the block runs, if the test is measured."""
        if not self.is_there or not self.is_wanted:
            yield
            return

        before = sys.gettrace()
        before_in_threads = threading.gettrace()
        sys.settrace(self._here)
        threading.settrace(self._in_threads)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before_in_threads)


TRACE = pytest.StashKey[Trace]()


class ModuleScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """The tests of a module are one piece of work, unless they have groups.

    If each test were a piece, finding the next one would take time in proportion to the square of
    their number.
    """

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).split("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling:
    return ModuleScheduling(config, log)


class FewReports:
    """A worker reports the call of a test, and its setup and teardown only if they don't pass; not
    that a test begins and ends.

    To write, send, read and count a report takes as much processor time as a small test.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(FewReports())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Stops coverage. It is on again only while fixtures and tests run.

    It would take nearly as long again as collection does in each worker, and as what pytest does
    between two tests. What the modules of `app` run when they are imported is measured before.
    """
    trace = Trace()
    session.config.stash[TRACE] = trace
    if trace.is_there and imports_are_traced(session.config):
        for name in LIBRARIES:
            importlib.import_module(name)
        with trace.on():
            for module in pkgutil.walk_packages(app.__path__, "app."):
                importlib.import_module(module.name)
    if hasattr(session.config, "workerinput") and are_all_wanted(session.config):
        import_modules(session.config.workerinput)

    return (yield)


def imports_are_traced(config: pytest.Config) -> bool:
    """Return whether this process measures imports: the only process or the first worker."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput["workerid"] == "gw0")
    return not config.getoption("numprocesses", None)


def are_all_wanted(config: pytest.Config) -> bool:
    """Return whether all tests are run, and not only some folders or files."""
    return [Path(argument).resolve() for argument in config.args] == [TESTS]


def import_modules(workerinput: Mapping[str, Any]) -> None:
    """Imports the modules of `app` and of the tests, in each worker from another one on: what one
    worker has compiled, others only load.

    If all of them began at the first module, each would compile nearly everything. In a new clone,
    that takes longer than all else that a worker does before its first test.
    """
    of_app = [module.name for module in pkgutil.walk_packages(app.__path__, "app.")]
    of_tests = [
        ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        for path in sorted(TESTS.rglob("test_*.py"))
    ]
    names = of_app + of_tests
    number = int(workerinput["workerid"].removeprefix("gw"))
    first = number * len(names) // workerinput["workercount"]
    for name in names[first:] + names[:first]:
        # Collection imports it again, and reports what is wrong.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


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
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run each test with the root logger as the process has it."""
    item.config.stash[TRACE].is_wanted = item.get_closest_marker("untraced") is None
    with logging_as_it_was():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    with request.config.stash[TRACE].on():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    with pyfuncitem.config.stash[TRACE].on():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with item.config.stash[TRACE].on():
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
