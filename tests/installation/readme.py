"""The commands of the README, so that what is tested is what administrators type."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def commands(heading: str, file: str = "README.md") -> list[str]:
    """The commands of the code blocks under a heading (`### Install`), until the next heading.

    Comments are left out, and continued lines are joined. Raises ValueError if there is no such
    heading or no command under it.
    """
    lines = (ROOT / file).read_text().splitlines()
    begin = lines.index(heading) + 1
    following = (
        number for number, line in enumerate(lines[begin:], begin) if re.match(r"#+ ", line)
    )
    section = lines[begin : next(following, len(lines))]
    block = "\n".join(
        re.sub(r"\s+# .*", "", line).strip() for line in section if line.startswith("    ")
    )
    if not block:
        raise ValueError(f"{file} has no command under {heading!r}")
    return re.sub(r" *\\\n", " ", block).splitlines()
