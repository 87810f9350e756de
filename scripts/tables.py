"""Write the generated parts of pages.

These parts stand between `<!-- generated: NAME -->` and `<!-- end -->`. Run this script after a
change of the first commands in `install.md`, or of a name or text in the code that a generated part
repeats. A test fails if a page is out of date.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from app.commands import COMMANDS  # noqa: E402
from app.commands.schema import SCHEMAS  # noqa: E402
from app.config.schema import Configuration  # noqa: E402
from app.explain.reasons.table import RULES  # noqa: E402
from app.facts.unit_owners import OWNER_KINDS, OwnerKind, UnitScope  # noqa: E402
from app.webhooks.registry import WEBHOOKS, Webhook  # noqa: E402

GUIDE = ROOT / "manifests" / "guide"
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    rows = [f"| `grove-admission {name}` | {text} |" for name, text in COMMANDS.items()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def webhooks() -> str:
    head = "| path | operations | failurePolicy | timeout | sideEffects | matchConditions |"
    return "\n".join([head, "|---|---|---|---|---|---|", *map(_row, WEBHOOKS)])


def _row(webhook: Webhook) -> str:
    conditions = ", ".join(webhook.match_conditions)
    cells = (
        f"`{webhook.path}`",
        " ".join(webhook.operations),
        webhook.failure_policy,
        f"{webhook.timeout_seconds} s",
        webhook.side_effects,
        conditions,
    )
    return f"| {' | '.join(cells)} |"


def units() -> str:
    head = "| workload | how a Pod names it | scope | a unit is named |"
    rows = [
        f"| {_owners(kind)} | `{kind.key}` | `{scope.name}` | `{_unit(scope)}` |"
        for kind in OWNER_KINDS
        for scope in kind.scopes
    ]
    return "\n".join([head, "|---|---|---|---|", *rows])


def _owners(kind: OwnerKind) -> str:
    return ", ".join(sorted(resource.kind for resource in kind.resources))


def _unit(scope: UnitScope) -> str:
    parts = [key.rpartition("/")[2].rpartition(".")[2] for key in scope.keys]
    return "-".join([scope.prefix, "<name>", *(f"<{part}>" for part in parts)])


def install() -> str:
    """Return the first block of commands in `install.md`. Raise ValueError if there is none."""
    page = (GUIDE / "install.md").read_text()
    block = re.search(r"(?:^    .+\n)+", page, re.MULTILINE)
    if block is None:
        raise ValueError("install.md has no commands")
    return block[0].rstrip("\n")


def exit_codes() -> str:
    rows = [f"| `{name}` | {_exit_codes(name)} |" for name in COMMANDS]
    return "\n".join(["| command | exit codes |", "|---|---|", *rows])


def _exit_codes(command: str) -> str:
    """Return the exit codes in the help of a command or in the docstring of its module."""
    module = importlib.import_module(f"app.commands.{command}")
    for text in (module.COMMAND.description, module.__doc__ or ""):
        told = re.search(r"Exit codes?:\s+(.+?)\.?\s*(?:\n\n|$)", text, re.DOTALL)
        if told:
            return " ".join(told[1].split())
    return "0 done, 1 a failure, 2 unusable input"


def schemas() -> str:
    rows = [f"| `{name}` | {version} |" for name, (version, _) in SCHEMAS.items()]
    return "\n".join(["| schema | version |", "|---|---|", *rows])


def reasons() -> str:
    return _lines({rule.id for rule in RULES})


def metrics() -> str:
    return _lines(metric_names())


def metric_names() -> set[str]:
    """Return the names of all metrics in the code."""
    made = re.compile(r'\b(?:gauge|counter)\(\s*"([a-z_]+)"')
    counted = re.compile(r"PREFIX\}_([a-z_]+)")
    names = {f"{subject}_duration_seconds" for subject in ("request", "reconcile")}
    for path in (ROOT / "app").rglob("*.py"):
        text = path.read_text()
        names |= set(made.findall(text))
        names |= {f"{name}_total" for name in counted.findall(text)}

    return {f"grove_admission_{name}" for name in names}


def configuration() -> str:
    """Return a list with the keys of each section of the configuration."""
    sections = groupby(keys(Configuration), lambda key: re.split(r"[.[]", key)[0])
    lines = []
    for section, whole in sections:
        names = [key.removeprefix(section).removeprefix(".") for key in whole]
        lines.append(f"- `{section}`" + (f": {_listed(names)}" if any(names) else ""))
    return "\n".join(lines)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the path of each key in the configuration, such as `a.b[].c`."""
    for field in model.model_fields.values():
        path = f"{prefix}{field.alias}"
        kind = field.annotation
        inner = re.match(r"tuple\[(.+), \.\.\.\]", str(kind))
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{path}.")
        elif inner:
            (item, _) = kind.__args__  # type: ignore[union-attr]
            is_section = isinstance(item, type) and issubclass(item, BaseModel)
            yield from keys(item, f"{path}[].") if is_section else (f"{path}[]",)
        else:
            yield path


def labels() -> str:
    """Return a list of our labels and annotations in the code and in the policies."""
    named = re.compile(
        r"['\"](grove\.io/mnnvl-[a-z-]+|grove-admission\.grove\.io/[a-z][a-z-]+)['\"]"
    )
    paths = [
        *(ROOT / "app").rglob("*.py"),
        *(ROOT / "manifests" / "policies").rglob("*.yaml"),
    ]
    return _lines({name for path in paths for name in named.findall(path.read_text())})


def _lines(names: Iterable[str]) -> str:
    return "\n".join(f"- `{name}`" for name in sorted(names))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "configuration": configuration,
    "exit_codes": exit_codes,
    "install": install,
    "labels": labels,
    "metrics": metrics,
    "reasons": reasons,
    "schemas": schemas,
    "units": units,
    "webhooks": webhooks,
}


def written(text: str) -> str:
    """Return `text` with each generated part updated.

    Raise KeyError for a part with an unknown name.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def readmes() -> list[Path]:
    """Return the pages that may have generated parts."""
    return [
        ROOT / "README.md",
        *sorted(ROOT.glob("app/**/*.md")),
        *sorted(ROOT.glob("scripts/**/README.md")),
        *sorted(ROOT.glob("tests/**/README.md")),
        ROOT / "tests" / "MEASUREMENTS.md",
        ROOT / "manifests" / "README.md",
        *sorted(ROOT.glob("manifests/*/*/README.md")),
        *sorted(GUIDE.glob("*.md")),
    ]


def main() -> None:
    for path in readmes():
        text = path.read_text()
        if written(text) != text:
            path.write_text(written(text))
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
