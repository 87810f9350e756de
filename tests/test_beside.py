"""A module's tests stand beside it, in a file of its name, or say in their docstring what they test."""

import ast
from pathlib import Path

APP = Path(__file__).parents[1] / "app"
TESTS = Path(__file__).parent


def test_each_module_has_tests_beside_it_or_tests_that_name_it() -> None:
    docstrings = "\n".join(
        ast.get_docstring(ast.parse(file.read_text())) or "" for file in TESTS.rglob("test_*.py")
    )
    untested = []
    for file in sorted(APP.rglob("*.py")):
        module = file.relative_to(APP)
        names = (f"`app/{module}`", f"`app/{module.parent}/`")
        has_tests = (TESTS / module.parent / f"test_{module.name}").exists()
        if module.name != "__init__.py" and not has_tests:
            untested += [names[0]] * (not any(name in docstrings for name in names))
    assert untested == [], "add to the docstring of their tests: Tests `app/...py`."


def test_what_tests_name_is_there() -> None:
    missing = [
        f"{file.relative_to(TESTS)}: {named}"
        for file in TESTS.rglob("test_*.py")
        for named in (ast.get_docstring(ast.parse(file.read_text())) or "").split("`")[1::2]
        if named.startswith("app/") and not (APP.parent / named).exists()
    ]
    assert missing == []
