"""Pseudonyms of words: which are replaced, in which order they sort, and what stays."""

import base64
import json

import pytest

from app.base.pseudonyms import WordPseudonyms

KEPT = {"grove", "admission", "kai", "kube", "system", "zone", "Deny", "60s"}
NAMES = (
    *("acme", "grove-acme", "grove-system", "kai-x", "kbd", "kilo", "kube-system", "kva", "zulu"),
    *("zonal", "aaa", "sys", "tom", "system:acme:x", "oidc:eve@acme.example", "kaiser", "grovel"),
)


def test_pseudonyms_sort_as_the_names_do_also_among_words_that_stay() -> None:
    of = WordPseudonyms(NAMES, KEPT).of
    assert [of(name) for name in sorted(NAMES)] == sorted(map(of, NAMES))
    assert len({*map(of, NAMES)}) == len(NAMES)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("pod-7 of acme", "pod-7 of {acme}"),
        ("ACME and Acme", "{acme} and {acme}"),
        ("acmes, acme2, resourceKube", "acmes, acme2, resourceKube"),
        ("Deny, deny, DENY", "Deny, {deny}, {deny}"),
        ("kube-acme_acme.acme/acme", "kube-{acme}_{acme}.{acme}/{acme}"),
        ("Kube after 60s", "Kube after 60s"),
    ],
)
def test_whole_words_are_replaced_in_any_case(text: str, replaced: str) -> None:
    of = WordPseudonyms(["acme", "deny-60s", "kube"], KEPT).of
    assert of(text) == replaced.format(acme=of("acme"), deny=of("deny"))
    assert "acme" not in of("acme")


def test_what_json_escapes_is_no_part_of_a_word() -> None:
    of = WordPseudonyms(["eve", "neve"], ()).of
    message, path = "a\neve\teve", "\\neve"
    text = json.dumps([message, path])
    assert json.loads(of(text)) == [of(message), f"\\{of('neve')}"]
    assert "eve" not in of(text)


def test_the_token_of_a_list_is_a_name_however_long_it_is() -> None:
    start = f"/acme/{'a' * 253}"
    token = base64.urlsafe_b64encode(json.dumps({"v": "v1", "start": start}).encode()).decode()
    of = WordPseudonyms([token.rstrip("=")], ()).of
    assert len(of(token)) < 9


def test_certificates_stay() -> None:
    certificate = "abc/def+" * 50 + "=="
    of = WordPseudonyms(["abc", "def"], ()).of
    assert of(f'"{certificate}"') == f'"{certificate}"'
    assert of("abc/def+") != "abc/def+"
