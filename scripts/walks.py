"""Count the steps of a reader who follows a review through the code of its webhook.

    walks.py [--tree DIR] [--steps podclique|podcliqueset|podgang]

The webhooks of DIR answer their recorded reviews under a tracer, which records the calls between
functions. A walk begins at the handler of the webhook. The reader reads each function once, where
it is first called, and follows the calls in the order of their lines, in all branches that a
recorded review takes. Properties and special methods are not followed. Neither is code in `kube/`,
`stores/`, `base/` and files outside of packages.

For each walk, this script prints the number of

- files that the reader enters
- climbs: steps into a package of a higher layer
- returns: steps into a file that the reader has left before
- names of parameters

`--steps` also prints each step of one walk.
"""

import argparse
import asyncio
import importlib
import inspect
import itertools
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import CodeType, CoroutineType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]

HANDLERS = {
    "podclique": "PodCliqueWebhook.__call__",
    "podcliqueset": "PodCliqueSetWebhook.__call__",
    "podgang": "PodGangWebhook.__call__",
}
"""The handler by the first word of the names of recorded reviews."""

NOT_FOLLOWED = ("kube", "stores", "base")


class Function(NamedTuple):
    """A function in a file of `app/`, including its lambdas and comprehensions."""

    file: str
    name: str


class Step(NamedTuple):
    """The functions that are read in one file before the reader enters another file."""

    file: str
    functions: list[str]


class Tracer:
    """A recorder of the calls between functions of `app`, and of their parameters' names."""

    def __init__(self, app: Path) -> None:
        self._prefix = f"{app}/"
        self._functions: dict[CodeType, Function | None] = {}
        self._calls: dict[Function, dict[tuple[Function, int], None]] = defaultdict(dict)
        self.parameters: dict[Function, tuple[str, ...]] = {}

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """Record a call. The function that returns a coroutine counts as its caller."""
        here = self.function(frame.f_code)
        if here is None:
            return

        if event == "return" and isinstance(result, CoroutineType):
            self._note(here, result.cr_code, frame.f_lineno)
        if event != "call":
            return

        caller = frame.f_back
        while caller is not None and self.function(caller.f_code) is None:
            caller = caller.f_back
        above = None if caller is None else self.function(caller.f_code)
        if caller is not None and above is not None:
            self._note(above, frame.f_code, caller.f_lineno)

    def called(self, name: str) -> Function:
        """Return the called function with this name."""
        return next(function for function in self.parameters if function.name == name)

    def callees(self, function: Function) -> Iterator[Function]:
        """Yield the functions that `function` calls, by the line of the call, then by time."""
        for callee, _ in sorted(self._calls[function], key=lambda call: call[1]):
            yield callee

    def function(self, code: CodeType) -> Function | None:
        """Return the function of `code`, or None for a module and for code outside of `app`."""
        if code not in self._functions:
            self._functions[code] = self._read(code)
        return self._functions[code]

    def _note(self, caller: Function, code: CodeType, line: int) -> None:
        callee = self.function(code)
        if callee is not None and callee != caller:
            self._calls[caller].setdefault((callee, line))

    def _read(self, code: CodeType) -> Function | None:
        if not code.co_filename.startswith(self._prefix) or code.co_name == "<module>":
            return None

        name = code.co_qualname.partition(".<locals>")[0]
        function = Function(code.co_filename.removeprefix(self._prefix), name)
        if name == code.co_qualname:
            number = code.co_argcount + code.co_kwonlyargcount
            self.parameters[function] = code.co_varnames[:number]
        return function


async def trace(tree: Path, kind: str) -> Tracer:
    """Let the code of `tree` answer the recorded reviews of a kind. Return the recorded calls."""
    from tests import reviews

    tracer = Tracer(tree / "app")
    for name in reviews.names():
        if name.partition(".")[0] == kind:
            caller = reviews.Caller()
            sys.setprofile(tracer)
            try:
                await caller.ask(reviews.path_of(name), reviews.load(name))
            finally:
                sys.setprofile(None)

    return tracer


def walk(tracer: Tracer, function: Function, steps: list[Step], names: set[str]) -> None:
    """Add the steps of a reader of `function` to `steps`, and the parameters' names to `names`.

    Functions in `steps` are not read again.
    """
    file, name = function
    package, _, inside = file.partition("/")
    is_read = any(step.file == file and name in step.functions for step in steps)
    is_left_out = package in NOT_FOLLOWED or not inside
    if is_read or is_left_out or (steps and _is_like_attribute(function)):
        return

    if not steps or steps[-1].file != file:
        steps.append(Step(file, []))
    steps[-1].functions.append(name)
    names.update({*tracer.parameters.get(function, ())} - {"self", "cls"})
    for callee in tracer.callees(function):
        walk(tracer, callee, steps, names)


def _is_like_attribute(function: Function) -> bool:
    dotted = function.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found: Any = importlib.import_module(f"app.{dotted}")
    for part in function.name.split("."):
        found = inspect.getattr_static(found, part, None)
    return isinstance(found, property | cached_property) or function.name.endswith("__")


def layers(tree: Path) -> dict[str, int]:
    """Return the height of each package of `app` in the layers of import-linter."""
    settings = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    rows = next(row["layers"] for row in contracts if row["type"] == "layers")
    return {
        package.strip().removeprefix("app."): height
        for height, row in enumerate(reversed(rows))
        for package in row.replace(":", "|").split("|")
    }


def counts(steps: list[Step], heights: dict[str, int]) -> tuple[int, int, int]:
    """Return the numbers of files, climbs and returns of a walk."""
    files = [step.file for step in steps]
    floors = [heights[file.split("/")[0]] for file in files]
    climbs = sum(above > below for below, above in itertools.pairwise(floors))
    entered = len(set(files))
    return entered, climbs, len(files) - entered


def main() -> None:
    """Print the counts of each walk, and the steps of one walk if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--steps", choices=HANDLERS, help="print the steps of this walk")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    sys.path.insert(0, str(tree))

    print(f"{'':14}{'files':>8}{'climbs':>8}{'returns':>8}{'names':>8}")
    for kind, handler in HANDLERS.items():
        steps: list[Step] = []
        names: set[str] = set()
        tracer = asyncio.run(trace(tree, kind))
        walk(tracer, tracer.called(handler), steps, names)

        figures = (*counts(steps, layers(tree)), len(names))
        print(f"{kind:14}" + "".join(f"{figure:>8}" for figure in figures))
        for number, step in enumerate(steps if kind == arguments.steps else (), 1):
            print(f"{number:>4}  {step.file:36}{', '.join(step.functions)}")


if __name__ == "__main__":
    main()
