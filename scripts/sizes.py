"""Print the number of files, lines and tokens of each part of the code, and the largest functions.

Python's tokenizer counts the tokens. Comments, line breaks and indentation do not count. No size is
limited.
"""

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("app", "scripts", "tests")
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def token_lines(text: str) -> list[int]:
    """Return the line number of each token."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.start[0] for token in tokens if token.string and token.type not in _LAYOUT]


def main() -> None:
    """Print one line for each part, then the five largest functions of `app`."""
    functions: list[tuple[int, str]] = []
    for part in PARTS:
        lines = tokens = 0
        paths = sorted((ROOT / part).rglob("*.py"))
        for path in paths:
            text = path.read_text(encoding="utf-8")
            numbers = token_lines(text)
            lines += len(text.splitlines())
            tokens += len(numbers)
            if part == "app":
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                        end = node.end_lineno or 0
                        size = sum(node.lineno <= number <= end for number in numbers)
                        where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                        functions.append((size, where))
        print(f"{part:8}{len(paths):>6,} files{lines:>9,} lines{tokens:>9,} tokens")

    for size, where in sorted(functions, reverse=True)[:5]:
        print(f"{size:>8,} tokens  {where}")


if __name__ == "__main__":
    main()
