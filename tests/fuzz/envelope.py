"""Any body, content type and query on any admission path: 200 with a review, or a 4xx with a
Status.

An input is a line of path, query and content type, and the body.
"""

from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec

from app.admission.exchange import Exchange
from tests.fuzz.mutation import ODD, Vocabulary, changed_bytes, dump, read
from tests.fuzz.target import Target
from tests.fuzz.verdicts import CLUSTERS, CODES, PATHS, awaited, reviews

QUERIES = (
    b"timeout=10s",
    b"",
    b"timeout=0s",
    b"timeout=1h1m",
    b"timeout=.5ms&timeout=x",
    b"a=b&timeout=5s",
    b"timeout=9e9s",
)
TYPES = (
    b"application/json",
    b"application/json; charset=utf-8",
    b"APPLICATION/JSON",
    b"text/plain",
    b"",
    b"\xff\xfe",
)


def run(data: bytes) -> None:
    line, _, body = data.partition(b"\n")
    parts = line.split(b" ", 2)
    path = parts[0].decode("latin-1")
    if len(parts) < 3 or path not in PATHS:
        return
    exchange = Exchange(CLUSTERS.routes("recorded"), lambda *_: None)
    headers = {b"content-type": parts[2]}
    status, answer = awaited(exchange.answer(exchange.routes[path], parts[1], headers, body))
    document = msgspec.json.decode(answer)
    if status == 200:
        response = document["response"]
        assert (document["kind"], bool(response["uid"])) == ("AdmissionReview", True), document
        code = response.get("status", {}).get("code")
        assert code in (*CODES, 415) or (code == 500 and b"RBAC" in answer), document
        assert isinstance(response["allowed"], bool)
    else:
        assert (status, document["kind"]) in {(code, "Status") for code in (400, 413, 415)}, (
            status,
            document,
        )


@cache
def corpus() -> Sequence[bytes]:
    bodies = [dump(review) for path in PATHS for review in reviews(path)[:6]]
    bodies += [b"", b"{", b"[]", b'{"request":{"uid":"u"', *map(dump, ODD)]
    heads = [f"{path} ".encode() + QUERIES[0] + b" " + TYPES[0] + b"\n" for path in PATHS]
    return [head + body for body in bodies for head in heads]


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(review for path in PATHS for review in reviews(path))


def mutate(data: bytes, random: Random) -> bytes:
    line, _, body = data.partition(b"\n")
    if random.random() < 0.2:
        path = random.choice(PATHS).encode()
        line = b" ".join((path, random.choice(QUERIES), random.choice(TYPES)))
    review = read(body)
    if review is None or random.random() < 0.3:
        return line + b"\n" + changed_bytes(body, random)
    if (
        isinstance(review, dict)
        and isinstance(review.get("request"), dict)
        and random.random() < 0.7
    ):
        shallow = {
            key: {} if key in ("object", "oldObject") else value
            for key, value in review["request"].items()
        }
        changed = _vocabulary().changed({**review, "request": shallow}, random)
        if isinstance(changed, dict) and isinstance(changed.get("request"), dict):
            kept = {
                key: review["request"][key]
                for key, value in changed["request"].items()
                if value == {} and key in review["request"]
            }
            changed["request"] |= kept
        return line + b"\n" + dump(changed)
    return line + b"\n" + dump(_vocabulary().changed(review, random))


ENVELOPE = Target("envelope", run, corpus, mutate)
