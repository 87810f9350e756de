"""Measure the style of a Python tree in tokens, and compare it with limits: gauge.py [ROOT=app]

Tokens are those of Python's tokenizer, without comments, line breaks and indentation. The columns
are the figure and its limit. A figure above its limit is followed by its worst places. Exit code: 1
if a figure is above its limit, otherwise 0.
"""

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]

LIMITS = {
    "tokens per line": 5.7,
    "files above 2,500 tokens": 0,
    "functions above 250 tokens": 0,
    "functions above complexity 10": 0,
    "functions above 5 parameters": 10,
    "% of long bodies without a blank line": 40,
    "parallel assignments per 1,000 lines": 1,
    "docstrings without a summary line": 0,
    "% of lines above 100 characters": 0.5,
    "class names in several files": 5,
    "tokens": 330_000,
}

LONG_BODY = 12
SHOWN = 5
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the tree that counts for a figure, and by how much it is too large."""

    figure: str
    size: int
    where: str


@dataclass(slots=True)
class Tree:
    """The sums over all files, and the places that are above a limit."""

    files: int = 0
    lines: int = 0
    tokens: int = 0
    long_bodies: int = 0
    function_sizes: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, path: Path) -> None:
        """Add the figures of one file. Raise SyntaxError if it is not Python."""
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        lines = text.splitlines()
        token_lines = _token_lines(text)

        self.files += 1
        self.lines += len(lines)
        self.tokens += len(token_lines)
        self.places += _places_of_file(path, lines, nodes, len(token_lines))

        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                self.classes[node.name].add(str(path))
            if isinstance(node, _FUNCTIONS):
                size = sum(node.lineno <= line <= (node.end_lineno or 0) for line in token_lines)
                self.function_sizes.append(size)
                self.long_bodies += len(_body(node, lines)) >= LONG_BODY
                self.places += _places_of_function(node, f"{path}:{node.lineno}", size, lines)

    def figures(self) -> dict[str, float]:
        """Return each figure of LIMITS, in its unit. ZeroDivisionError for a tree without code."""
        counts = Counter(place.figure for place in self.places)
        several = sum(len(files) > 1 for files in self.classes.values())
        shares = {
            "% of long bodies without a blank line": 100 / max(1, self.long_bodies),
            "% of lines above 100 characters": 100 / self.lines,
            "parallel assignments per 1,000 lines": 1000 / self.lines,
        }
        exact = {
            "tokens per line": self.tokens / self.lines,
            "tokens": self.tokens,
            "class names in several files": several,
        }
        counted = {name: counts[name] * shares.get(name, 1) for name in LIMITS}

        return counted | exact


def _token_lines(text: str) -> list[int]:
    """Return the line of each token."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.start[0] for token in tokens if token.string and token.type not in _LAYOUT]


def _texts(nodes: list[ast.AST]) -> Iterator[ast.Constant]:
    """Return docstrings and other constants that stand alone."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _places_of_file(
    path: Path, lines: list[str], nodes: list[ast.AST], tokens: int
) -> Iterator[Place]:
    if tokens > 2500:
        yield Place("files above 2,500 tokens", tokens, str(path))

    for number, line in enumerate(lines, 1):
        if len(line) > 100:
            yield Place("% of lines above 100 characters", len(line), f"{path}:{number}")

    for text in _texts(nodes):
        second = str(text.value).strip().splitlines()[1:2]
        if second and second[0].strip():
            yield Place("docstrings without a summary line", 1, f"{path}:{text.lineno}")

    for node in nodes:
        if isinstance(node, ast.Assign) and _is_parallel(node):
            yield Place("parallel assignments per 1,000 lines", 1, f"{path}:{node.lineno}")


def _places_of_function(
    function: _Function, where: str, size: int, lines: list[str]
) -> Iterator[Place]:
    name = f"{where} {function.name}"
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    parameters = sum(argument.arg not in ("self", "cls") for argument in arguments)
    ways = complexity(function)
    body = _body(function, lines)

    if size > 250:
        yield Place("functions above 250 tokens", size, name)
    if ways > 10:
        yield Place("functions above complexity 10", ways, name)
    if parameters > 5:
        yield Place("functions above 5 parameters", parameters, name)
    if len(body) >= LONG_BODY and all(line.strip() for line in body):
        yield Place("% of long bodies without a blank line", len(body), name)


def _body(function: _Function, lines: list[str]) -> list[str]:
    """Return the lines of the body of a function after its docstring."""
    has_docstring = ast.get_docstring(function) is not None
    statements = function.body[has_docstring:] or function.body
    return lines[statements[0].lineno - 1 : function.end_lineno]


def _is_parallel(node: ast.Assign) -> bool:
    """Return whether several names get several values, other than in `a, b = b, a`."""
    target = node.targets[0]
    if not isinstance(node.value, ast.Tuple) or not isinstance(target, ast.Tuple):
        return False

    names = {ast.unparse(element) for element in target.elts}
    return names.isdisjoint(ast.unparse(part) for part in ast.walk(node.value))


def complexity(function: ast.AST) -> int:
    """Return the number of ways through a function, those inside of expressions included."""
    ways = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            ways += 1
        elif isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            ways += 1 + len(node.ifs)
    return ways


def worst(tree: Tree, figure: str) -> list[Place]:
    """Return the places that count most for a figure."""
    if figure == "class names in several files":
        shared = [item for item in tree.classes.items() if len(item[1]) > 1]
        places = [Place(figure, len(files), f"{name} {sorted(files)}") for name, files in shared]
    else:
        places = [place for place in tree.places if place.figure == figure]
    return sorted(places, key=lambda place: (-place.size, place.where))[:SHOWN]


def main() -> None:
    """Print all figures, and exit with 1 if one is above its limit."""
    root = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "app")
    tree = Tree()
    for path in sorted(root.rglob("*.py")):
        tree.add(path)
    if not tree.tokens:
        sys.exit(f"{root}: there is no Python code to measure")

    is_above = False
    for figure, value in tree.figures().items():
        limit = LIMITS[figure]
        is_too_much = value > limit
        mark = "above" if is_too_much else ""
        print(f"{figure:40}{value:>11,.6g}{limit:>10,.6g}  {mark}".rstrip())
        for place in worst(tree, figure) if is_too_much else []:
            print(f"{place.size:>13}  {place.where}")
        is_above = is_above or is_too_much

    sizes = sorted(tree.function_sizes)
    print(f"{'tokens of a function, median':40}{sizes[len(sizes) // 2]:>11,}")
    print(f"{'lines':40}{tree.lines:>11,}")
    sys.exit(is_above)


if __name__ == "__main__":
    main()
