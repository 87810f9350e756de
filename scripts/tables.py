"""Writes the tables in READMEs that repeat the code, between `<!-- generated: NAME -->` and `<!--
end -->`.

Run it after a change of the registry of webhooks, of the commands or of the kinds of workloads; a test compares the READMEs
with it.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from app.commands import COMMANDS  # noqa: E402
from app.facts.unit_owners import OWNER_KINDS, OwnerKind, UnitScope  # noqa: E402
from app.webhooks.registry import WEBHOOKS, Webhook  # noqa: E402

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


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "webhooks": webhooks,
    "units": units,
}


def written(text: str) -> str:
    """`text` with every generated block as the code has it.

    KeyError for a block that nothing generates.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def readmes() -> list[Path]:
    """The READMEs of the repository."""
    return [
        ROOT / "README.md",
        *sorted(ROOT.glob("app/**/README.md")),
        *sorted(ROOT.glob("*/README.md")),
        *sorted(ROOT.glob("manifests/*/*/README.md")),
    ]


def main() -> None:
    for path in readmes():
        text = path.read_text()
        if written(text) != text:
            path.write_text(written(text))
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
