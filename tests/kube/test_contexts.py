"""Contexts of kubeconfigs, read without credentials."""

import json
import os
from pathlib import Path

import pytest

from app.kube.contexts import contexts_in, current_context, files_of, namespace_of


def written(path: Path, current: str = "", **namespaces: str) -> Path:
    """A kubeconfig with a context for each namespace."""
    contexts = [
        {"name": name, "context": {"namespace": namespace} if namespace else {}}
        for name, namespace in namespaces.items()
    ]
    path.write_text(json.dumps({"current-context": current, "contexts": contexts}))
    return path


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    path = written(tmp_path / "config", "a", a="ml", b="batch", c="")
    assert namespace_of(path, None) == "ml"
    assert namespace_of(path, "b") == "batch"
    assert namespace_of(path, "c") == "default"
    assert namespace_of(path, "none") == "default"
    assert current_context(path) == "a"


@pytest.mark.parametrize("content", ["", "[", "7", "contexts: 7", '{"current-context": "a"}'])
def test_what_is_no_kubeconfig_has_no_contexts(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert current_context(path) == ""
    assert namespace_of(path, None) == "default"
    assert contexts_in(path)[0] == {}


def test_of_several_files_the_first_context_of_a_name_counts_and_the_first_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kubectl does: it was asked for `kubectl config view` of such files."""
    first = written(tmp_path / "first", "a", a="of-first", b="b")
    second = written(tmp_path / "second", "c", a="of-second", c="c")
    missing = tmp_path / "missing"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, missing, second))))
    contexts, current = contexts_in(None)
    assert {name: context["namespace"] for name, context in contexts.items()} == {
        "a": "of-first",
        "b": "b",
        "c": "c",
    }
    assert current == "a"


def test_of_several_files_an_empty_current_context_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = written(tmp_path / "empty", "", a="of-empty")
    other = written(tmp_path / "other", "b", a="a", b="b")
    for files in ((empty, other), (other, empty)):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
        assert current_context(None) == "b"


@pytest.mark.parametrize("variable", ["", None])
def test_without_the_variable_the_file_in_the_home_directory_is_read(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if variable is not None:
        monkeypatch.setenv("KUBECONFIG", variable)
    assert files_of(None) == [str(tmp_path / ".kube" / "config")]
    assert files_of(Path("other")) == ["other"]
