"""Playground: verdicts, lines, diffs, files and masks.

Tests `app/console/source.py`.
"""

from pathlib import Path

import httpx
import pytest
import yaml

from app.console.playground import EXAMPLE
from app.console.source import difference, line_in_source, masked, roots
from scripts.apiserver.command import default_configuration
from tests.console.fake import HOST, Lists, console
from tests.console.objects import objects
from tests.console.parsed import Parsed

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: token}
data:
  token: aHVudGVyMg==
stringData:
  note: |
    hunter2
    hunter3
type: Opaque
"""


async def judge(text: str, path: str = "playground", **form: str) -> httpx.Response:
    async with console(Lists(objects()), configuration=default_configuration()) as (client, _):
        return await client.post(
            path, data={"text": text, **form}, headers={"origin": f"http://{HOST}"}
        )


async def test_a_refusal_names_path_and_line() -> None:
    parsed = Parsed((await judge(EXAMPLE, operation="CREATE", cluster="on")).text)
    assert parsed.heading == "Refused: 1 of 1 document"
    assert parsed.texts("span", cls="problem")[0] == "■ refused, 422"
    assert "spec.template.cliques[0].topologyConstraint.packDomain line 14" in parsed.texts("p")
    assert parsed.all("a", cls="line")[0].attributes["data-line"] == "14"
    assert EXAMPLE.splitlines()[13].strip() == "packDomain: zone"
    assert parsed.all("textarea")[0].parts[0].strip("\n") == EXAMPLE.strip("\n")
    assert "14 ■" in " ".join(parsed.all("pre")[0].text.split())


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("replicas", "words"), [(2, "● each of its gangs has room by itself"), (5, "■ not now")]
)
async def test_an_allowed_set_is_tried_on_the_nodes_of_now(replicas: int, words: str) -> None:
    text = EXAMPLE.replace("packDomain: zone", "packDomain: rack").replace(
        "replicas: 4", f"replicas: {replicas}"
    )
    parsed = Parsed((await judge(text, cluster="on")).text)
    assert parsed.heading == "Allowed: 1 document"
    assert words in " ".join(parsed.texts("p"))


async def test_without_all_facts_nothing_is_said_about_room() -> None:
    text = EXAMPLE.replace("packDomain: zone", "packDomain: rack")
    lists = Lists(objects(), denied=("topologies",))
    async with console(lists, configuration=default_configuration()) as (client, _):
        form = {"text": text, "cluster": "on"}
        answer = await client.post("playground", data=form, headers={"origin": f"http://{HOST}"})
    assert "Would it be placed now?" not in Parsed(answer.text).texts("main")[0]


async def test_documents_that_no_webhook_judges_are_not_counted_as_allowed() -> None:
    text = f"{EXAMPLE.replace('packDomain: zone', 'packDomain: rack')}---\n{SECRET}"
    assert Parsed((await judge(text)).text).heading == "Allowed: 1 of 2 documents"


async def test_a_patch_is_a_diff_and_says_what_would_be_made() -> None:
    text = "\n---\n".join(
        (EXAMPLES / name).read_text()
        for name in ("facts/podcliquesets.yaml", "podclique-mnnvl.yaml")
    )
    parsed = Parsed((await judge(text)).text)
    assert parsed.heading == "Allowed: 4 documents"
    added = [line for line in parsed.texts("span", cls="plus") if "resourceClaims" in line]
    assert added
    assert any("create ComputeDomain" in line for line in parsed.texts("p"))


async def test_without_the_facts_of_the_cluster_none_are_read() -> None:
    lists = Lists(objects())
    async with console(lists, configuration=default_configuration()) as (client, _):
        calls = len(lists.calls)
        headers = {"origin": f"http://{HOST}"}
        await client.post("playground", data={"text": EXAMPLE}, headers=headers)
        assert len(lists.calls) == calls
        await client.post("playground", data={"text": EXAMPLE, "cluster": "on"}, headers=headers)
        assert len(lists.calls) > calls
    assert {verb for verb, _ in lists.calls} == {"list"}


@pytest.mark.untraced
@pytest.mark.parametrize("text", ["", "a: [", "- 1", "&a [*a]", "\x00"])
async def test_text_that_cannot_be_judged_is_kept_and_explained(text: str) -> None:
    answer = await judge(text)
    assert answer.status_code == 200
    assert Parsed(answer.text).heading == "These documents can't be judged"


async def test_a_secret_is_shown_masked() -> None:
    answer = await judge(SECRET)
    assert "hunter" not in answer.text
    assert "aHVudGVyMg" not in answer.text
    kept = yaml.safe_load(Parsed(answer.text).all("textarea")[0].parts[0])
    assert kept["data"] == {"token": "***"}
    assert kept["type"] == "Opaque"


async def test_a_saved_file_has_documents_options_version_and_verdicts() -> None:
    answer = await judge(EXAMPLE, "playground.json", operation="UPDATE", user="alice", cluster="on")
    saved = answer.json()
    assert answer.headers["content-disposition"].startswith("attachment")
    assert saved["documents"] == EXAMPLE
    assert saved["options"] == {"operation": "UPDATE", "user": "alice", "cluster": True}
    assert saved["version"] == "1.0"
    assert [verdict["name"] for verdict in saved["verdicts"]] == ["llm-serve"]


LINES = """\
kind: List
items:
  - kind: A
    spec:
      list:
        - name: x
        - name: y
  - {kind: B, spec: {deep: 1}}
"""


@pytest.mark.parametrize(
    ("document", "path", "line"),
    [
        (0, "spec.list[1].name", 7),
        (0, "spec.list[1]", 7),
        (0, "spec.list[9].name", 5),
        (0, "spec.nothing.at.all", 4),
        (0, "", 3),
        (1, "spec.deep", 8),
        (1, "kind", 8),
    ],
)
def test_the_line_of_a_field(document: int, path: str, line: int) -> None:
    assert line_in_source(roots(LINES)[document], path) == line


def test_documents_are_counted_as_they_are_judged() -> None:
    assert len(roots("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n")) == 2
    assert len(roots('[{"a": 1}, {"b": 2}]')) == 2


def test_only_secrets_are_masked() -> None:
    other = "kind: ConfigMap\ndata: {a: b}\n"
    assert masked(other, roots(other)) == other
    odd = "kind: Secret\ndata: 3\n"
    assert masked(odd, roots(odd)) == odd


def test_a_difference_shows_what_is_around_it() -> None:
    before = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9}
    lines = difference(before, {**before, "a": 0, "i": 0})
    marks = "".join(line["mark"] for line in lines)
    assert marks == "-+  …  -+"
    assert difference(before, before) == []
