"""The commands of the README and of the guide, so that what is tested is what administrators
type.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "manifests" / "guide"
PAGES = (ROOT / "README.md", *sorted(GUIDE.glob("*.md")))


def commands(title: str) -> list[str]:
    """The commands of the code blocks under the first heading of this title, until the next one.

    Comments are omitted, and continued lines are joined. Raises ValueError if no heading of this
    title has a command.
    """
    for path in PAGES:
        found = dict(sections(path)).get(title)
        if found:
            return found
    raise ValueError(f"no page has a command under {title!r}")


def sections(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading of a page, and the commands under it."""
    for section in re.split(r"^#+ ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("    ")]
        block = "\n".join(re.sub(r"\s+# .*", "", line).strip() for line in lines)
        yield title, [line for line in re.sub(r" *\\\n", " ", block).splitlines() if line]
