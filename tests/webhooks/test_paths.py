"""Paths with tokens in stored webhook configurations."""

from typing import Any

import pytest

from app.objects.shape import Object
from app.objects.tokens import new_token
from app.webhooks.configurations import (
    ServiceTarget,
    UrlTarget,
    webhook_configurations,
)
from app.webhooks.paths import (
    MANAGED,
    PATHS,
    PATHS_ARE_OURS,
    are_ours,
    carry_tokens,
    path_of,
    tokens_in,
    with_token,
)

TOKEN = new_token(1_800_000_000)

OTHERS: Object = {"name": "theirs.example.com", "clientConfig": {"service": {"path": "/x"}}}


def configurations(token: str, *more: Object, url: str = "") -> list[Object]:
    """Our two configurations with a token in each path."""
    target = UrlTarget(url, b"") if url else ServiceTarget()
    made = webhook_configurations(target)
    return [{**obj, "webhooks": [*with_token(obj, token), *more]} for obj in made]


@pytest.mark.parametrize("url", ["", "https://127.0.0.1:8443"], ids=["a Service", "a URL"])
def test_a_token_is_written_into_each_of_our_paths_and_read_again(url: str) -> None:
    for configuration in configurations(TOKEN, OTHERS, url=url):
        *ours, theirs = configuration["webhooks"]
        assert theirs == OTHERS
        paths = {webhook["name"]: path_of(webhook["clientConfig"]) for webhook in ours}
        assert paths == {name: f"/{TOKEN}{PATHS[name]}" for name in paths}
        assert tokens_in(configuration) == {TOKEN}
        without = [path_of(each["clientConfig"]) for each in with_token(configuration, "")]
        assert without == [*(PATHS[each["name"]] for each in ours), "/x"]


def test_webhooks_are_called_with_a_token_if_both_configurations_have_one_everywhere() -> None:
    both = configurations(TOKEN)
    assert carry_tokens(both)
    assert not carry_tokens(both[:1])
    assert not carry_tokens([])
    assert not carry_tokens(configurations(""))
    first, second = both
    empty = {**second, "webhooks": []}
    assert not carry_tokens([first, empty])
    mixed = {**second, "webhooks": [second["webhooks"][0], *with_token(second, "")[1:]]}
    assert not carry_tokens([first, mixed])


@pytest.mark.parametrize(
    ("webhook", "tokens"),
    [
        pytest.param({}, {""}, id="no clientConfig"),
        pytest.param({"clientConfig": None}, {""}, id="null"),
        pytest.param({"clientConfig": {"service": None}}, {""}, id="no service"),
        pytest.param({"clientConfig": {"service": {"path": 3}}}, {""}, id="a number"),
        pytest.param({"clientConfig": {"url": "https://[bad"}}, {""}, id="no URL"),
        pytest.param({"clientConfig": {"url": 3}}, {""}, id="a number as URL"),
    ],
)
def test_what_others_have_written_has_no_token(webhook: Object, tokens: set[str]) -> None:
    name = next(iter(PATHS))
    assert tokens_in({"metadata": {}, "webhooks": [{"name": name, **webhook}]}) == tokens


def test_a_configuration_without_webhooks_has_no_tokens() -> None:
    assert tokens_in({"metadata": {}}) == set()
    assert tokens_in({"metadata": {}, "webhooks": None}) == set()
    assert with_token({"metadata": {}, "webhooks": None}, TOKEN) == []


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({PATHS_ARE_OURS: MANAGED}, True),
        ({PATHS_ARE_OURS: "no"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_paths_are_ours_if_the_annotation_says_so(annotations: Any, expected: bool) -> None:
    assert are_ours({"metadata": {"annotations": annotations}}) is expected
    assert are_ours({"metadata": {}}) is False
