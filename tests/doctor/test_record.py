"""What an examination heard, again: answers, errors, and handshakes.

Tests `app/base/record.py` and `app/commands/records.py`.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.base.record import record_of, recorded_facts
from app.cli import main
from app.doctor.certificate import Handshake
from app.doctor.record import KIND, Heard, unanswered, unreachable
from app.kube.api import ClusterError, Gone, NotFound, NotServed, Object, Rejected, Unavailable
from app.kube.transport import ApiRequest
from app.objects.tokens import HIDDEN, new_token
from tests.doctor import test_mistakes, test_mistakes_around
from tests.doctor.installation import Change, Installation, shake
from tests.doctor.recording import record

ASKED = ApiRequest("get", "pods", "GET", "/api/v1/pods")


def heard() -> Heard:
    return Heard(datetime(2026, 11, 26, tzinfo=UTC), False, False, True, "{}")


def again(before: Heard) -> Heard:
    """As it is read from its record."""
    return recorded_facts(Heard, record_of(KIND, before))


@pytest.mark.parametrize(
    "error",
    [
        NotFound("no pods", code=404, reason="NotFound"),
        NotServed("no resource", code=404),
        Rejected("not you", code=403, reason="Forbidden"),
        Gone("too old", code=410),
        Unavailable("down"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_is_raised_again(error: ClusterError) -> None:
    async def call(request: ApiRequest) -> Object:
        raise error

    first = heard()
    for is_again in (False, True):
        calling = again(first).keeping(unanswered) if is_again else first.keeping(call)
        with pytest.raises(type(error)) as raised:
            await calling(ASKED)
        same = raised.value
        assert (same.message, same.code, same.reason) == (error.message, error.code, error.reason)


async def test_an_answer_is_the_first_one_and_nobody_can_change_it() -> None:
    answers: Iterator[Object] = iter(
        [{"items": [{"metadata": {"name": f"/{new_token(1.0)}/x"}, "more": 1}]}, {"items": []}]
    )

    async def call(request: ApiRequest) -> Object:
        return next(answers)

    first = heard()
    calling = first.keeping(call)
    (await calling(ASKED))["items"].clear()
    same = {"items": [{"metadata": {"name": f"/{HIDDEN}/x"}}]}
    assert await calling(ASKED) == same
    assert await again(first).keeping(unanswered)(ASKED) == same


async def test_what_was_not_asked_is_not_known() -> None:
    with pytest.raises(Unavailable, match="the record has no answer"):
        await heard().keeping(unanswered)(ASKED)


async def test_handshakes_are_those_of_the_record() -> None:
    async def shake(*asked: Any) -> Handshake:
        return Handshake("trusted")

    first = heard()
    assert await first.shaking(shake)("10.0.0.1", 443, "a", b"ca") == Handshake("trusted")
    shaking = again(first).shaking(unreachable)
    assert await shaking("10.0.0.1", 443, "a", b"ca") == Handshake("trusted")
    assert (await shaking("10.0.0.1", 443, "a", b"other")).outcome == "unreachable"


# What a record has.


MISTAKES = {**test_mistakes.MISTAKES, **test_mistakes_around.MISTAKES}
ALL_FINE: Change = lambda installation: None  # noqa: E731
CHANGES = {"nothing": ALL_FINE, **{name: change for name, (change, _) in MISTAKES.items()}}


IMAGE = re.compile(r"[\w./:-]+:(v?\d+\.\d+\.\d+)")
"""An image, of which a record has only the version."""


def told(content: bytes, tmp_path: Path, capsys: Any) -> Any:
    """What is found in a record."""
    file = tmp_path / "record"
    file.write_bytes(content)
    main(["doctor", "--all-webhooks", "--all", "--output", "json", "--offline", str(file)])
    found: Any = json.loads(IMAGE.sub(r"image:\1", capsys.readouterr().out))
    return found


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_fields_of_a_record_lead_to_what_whole_objects_lead_to(
    change: Change, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded() -> Any:
        installation = Installation()
        change(installation)
        client = installation.client()
        content = record(client, installation.version, installation.configured(), shake)
        return told(asyncio.run(content), tmp_path, capsys)

    bare = recorded()
    monkeypatch.setattr("app.doctor.record._bare", lambda answer, resource: answer)
    assert bare == recorded()


SECRET_TEXT = "do-not-tell"
MAPS_OF_USERS = {"labels", "matchLabels", "selector", "data"}
"""The maps that a record has as a whole, and `data`, which is planted below."""


def planted(value: Any, name: str = "") -> Any:
    """An object with a secret in each map, beside the fields that it has."""
    if isinstance(value, list):
        return [planted(item, name) for item in value]
    if not isinstance(value, dict) or name in MAPS_OF_USERS:
        return value
    more = {"planted": SECRET_TEXT, "env": [{"value": SECRET_TEXT}]}
    return {key: planted(item, key) for key, item in value.items()} | more


def test_what_no_check_reads_is_not_in_a_record() -> None:
    installation = Installation()
    kinds = {"Deployment", "Service", "ConfigMap", "EndpointSlice", "Lease"}
    kinds |= {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    for name, obj in installation.objects.items():
        if obj["kind"] in kinds:
            installation.objects[name] = planted(obj)
    url = f"https://user:{SECRET_TEXT}@hooks.example/{SECRET_TEXT}/x?token={SECRET_TEXT}"
    service = {"name": "a", "namespace": "b", "path": f"/{SECRET_TEXT}/y"}
    clients: list[Object] = [{"url": url}, {"service": service}]
    installation.objects["theirs"] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "theirs", "annotations": {"a": SECRET_TEXT}},
        "webhooks": [
            {"name": f"{n}.example", "clientConfig": client, "rules": []}
            for n, client in enumerate(clients)
        ],
    }
    grove = installation.objects["Grove"]
    grove["data"] = {
        "config.yaml": f"{grove['data']['config.yaml']}\nother: {SECRET_TEXT}\n",
        "password": SECRET_TEXT,
    }
    client = installation.client()
    content = record(client, installation.version, installation.configured(), shake)
    text = asyncio.run(content).decode()
    assert SECRET_TEXT not in text
    assert "hooks.example" in text
    assert "topologyAwareScheduling" in text
