"""The READMEs name all that they promise to: every configuration key, metric, event, command and
message.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import __version__
from app.cli import main
from app.config.schema import Configuration
from scripts import tables
from tests.installation.readme import GUIDE, PAGES, sections
from tests.test_manifests import exposed

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def readme(folder: str, name: str = "README.md") -> str:
    """A page of a folder, with each item of a list on one line."""
    return re.sub(r"\n  (?=\S)", " ", (ROOT / folder / name).read_text())


CONFIGURATION = readme("app/config")
SERVER = readme("app/server")
MESSAGES = [readme("app/webhooks", name) for name in ("REJECTIONS.md", "WARNINGS.md")]
EVENTS = readme("app/reconcilers")
_BRACES = re.compile(r"\{([^}]*)\}")


def documented() -> set[str]:
    """The keys of the list: `a.{b,c}` is two, and `.c` after `a.b` is `a.c`."""
    keys: set[str] = set()
    for line in CONFIGURATION.splitlines():
        if not line.startswith("- `"):
            continue
        last = ""
        for token in re.findall(r"`([^`]+)`", re.split(r" \(|: ", line)[0]):
            whole = last.rpartition(".")[0] + token if token.startswith(".") else token
            last = whole
            braces = _BRACES.search(whole)
            names = braces[1].split(",") if braces else [""]
            keys |= {_BRACES.sub(name, whole) for name in names}
    return keys


def test_every_configuration_key_is_explained() -> None:
    assert documented() == set(tables.keys(Configuration)) - {"apiVersion", "kind"}


def test_every_metric_is_named_and_no_other() -> None:
    named = {
        name for name in re.findall(r"grove_admission_[a-z_]+", SERVER) if not name.endswith("_")
    }
    exists = exposed() | {name.removesuffix("_bucket") for name in exposed()}
    assert named <= exists
    bare = {name for name in exposed() if not name.endswith(("_bucket", "_total"))}
    assert {name for name in bare if not {name, f"{name}_total"} & named} == set()


def test_commands_read_the_logs_of_all_replicas() -> None:
    """`kubectl logs deployment/NAME` prints the log of one replica, preferably of a ready one."""
    places = [ROOT / "README.md", *(ROOT / "manifests").rglob("*.md"), *(ROOT / "app").rglob("*")]
    texts = {path: path.read_text() for path in places if path.suffix in (".md", ".py")}
    assert [path for path, text in texts.items() if re.search(r"\blogs deploy", text)] == [
        ROOT / "app" / "doctor" / "report.py"  # a docstring that says why
    ]


def test_every_event_is_explained() -> None:
    recorded = re.compile(
        r'(?:record|say)\((?:[^"]|"Warning"|"Normal")*"(?!Warning|Normal)([A-Z][A-Za-z]+)"'
    )
    reported = re.compile(
        r'(?:Missing|Remark|_remark)\((?:stored, "[a-z]+", )?\s*"([A-Z][A-Za-z]+)"'
    )
    paths = [
        *(ROOT / "app" / "reconcilers").glob("*.py"),
        *(ROOT / "app" / "rules" / "workload").glob("*.py"),
    ]
    texts = [path.read_text() for path in paths]
    reasons = {
        reason for text in texts for reason in (*recorded.findall(text), *reported.findall(text))
    }
    assert {"WorkloadNotFound", "PodGroupContested", "QueueDiffers"} <= reasons
    assert len(reasons) > 9
    assert {
        reason for reason in reasons if not re.search(rf"^[-|] `{reason}`", EVENTS, re.MULTILINE)
    } == set()


def test_every_command_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) > 6
    assert [
        name for name in commands if f"grove-admission {name}" not in readme("app/commands")
    ] == []


RULES = (
    "rules/**/*.py",
    "objects/*.py",
    "webhooks/*.py",
    "admission/*.py",
    "cluster/view.py",
    "cluster/resources.py",
    "cluster/units.py",
)
OTHERWISE_SHOWN = {
    "connection.py": "no verdict",
    "head.py": "no verdict",
    "jsonpatch.py": "a bug of ours, said as such",
    "kai.py": "the Ready condition",
    "held_channels.py": "findings of an audit",
    "owner.py": "findings of an audit",
    "dialect.py": "findings of an audit",
    "lost_claims.py": "findings of an audit",
    "podgangs.py": "findings of an audit",
    "kai_podgroup.py": "events on PodGroups",
    "dry_run.py": "unusable documents",
    "policies.py": "the rules in CEL, in the words of the rules",
    "podgroup_minimums.py": "after 'KAI rejects this'",
    "pod_rejections.py": "after 'API servers reject such pods'",
    "set_changes.py": "after 'Grove rejects this'",
    "sharing_warnings.py": "after the path of an entry of resourceSharing",
    "set_rejections.py": "after 'Grove rejects this', or what Grove does not do",
    "policy.py": "the rules in CEL, in the words of the rules",
    "levels_policy.py": "the rules in CEL, in the words of the rules",
    "owners_policy.py": "the rules in CEL, in the words of the rules",
    "subgroups_policy.py": "the rules in CEL, in the words of the rules",
    "pod_policy.py": "a rule in CEL, which refuses nothing",
    "protection_policy.py": "static manifests of API servers: guide/rules.md",
    "queue_policy.py": "the queue guard: guide/queue-guard.md",
}
PARTS = {
    "{domain: …, key: …}",
    ". They stay within one domain of …, which can have several NVLink domains",
    " (all labelled nodes are in one …)",
    "enable dynamic resource allocation",
    "install NVIDIA's DRA driver",
    "ask the platform team to set mnnvl.claimMode: template",
    " Did you mean …?",
    ". Did you mean …?",
    ", or give --config with clusterTopology.levels",
    "Annotate the … with …",
    "Set …, or annotate the … with …",
    "Use … for all cliques",
    ". Set minAvailable = replicas at creation to keep all pods together",
    ". No … has room for all pods together",
    "Make the ComputeDomains so large that no two fit into one NVLink domain",
    "Make the units so large that no two fit into one NVLink domain",
    "Keep each in its own NVLink domain: annotate the … with …: …",
    "Keep the pods of each ComputeDomain within one NVLink domain",
    '. Require "…" in the topologyConstraint of …',
    'Set topologyConstraint.requiredTopologyLevel of the PodGroup "…", or of the subgroup of these pods, to …',
    " (tier-0 is the switch closest to a node)",
    " and … more",
    "1 pod with …",
    "… pods with … each",
    ", and Topograph may omit … on nodes that have …",
    "is controlled by … …",
    "; nodes have …",
    '"…" is in …',
    "Delete these PodCliqueSets first, because Grove allows no change of their constraints, or run: kubectl annotate --overwrite … … …=true",
    "set it to one of …",
    "Grove's operator could not create the KAI Topology, would exit at its next start and block every PodCliqueSet",
    "Create the PodCliqueSet with a shorter name",
    "Create the PodCliqueSet with a group name of at most … characters",
    "a replica of the PodCliqueSet",
    "a replica of …",
    "all of its pods",
    "install its CRD (kubectl apply -k manifests/prerequisites)",
    "wait until the leader of grove-admission writes it (clusterTopology.levels)",
    " (check its RBAC)",
    'is forbidden: User "',
    "some of its pods",
    "more than … of them",
    "Lower minAvailable or raise replicas",
    ", or set mnnvl.claimMode: template,",
    ", or set …: …",
    "Set …. Then …",
    "Use at most … pods",
    "delete the PodClique, so that Grove creates it again with another claim",
    "to correct it, delete the PodCliqueSet and create it again",
    "this cluster has none",
    "Nodes have the labels of all levels",
    "(nested too deeply to be shown)",
    "Invalid value: …: …",
    "PodGang %s/%s: left to the reconciler: %s",
    "Requests that wait for calls to the API server.",
    "Reviews refused because their caller is unknown.",
    "none (authorizedUsers is empty)",
    "patch does not apply",
    "The managed ClusterTopology does not exist or has no levels yet",
    "Topology support disabled in operator configuration",
    "All topology constraints name levels of the ClusterTopology",
    "Topology level… … not found in ClusterTopology '…'. Topology constraint will be ignored."
    " Please remove packDomain or update ClusterTopology.",
    "the PodCliqueSet (no label names it)",
    "the name of the PodCliqueSet",
    "the name of the scaling group",
    "the index of the PodCliqueSet replica",
    "the index of the scaling group replica",
    "the scaling group replica",
    "within one NVLink domain (node label …): pods in different domains have no NVLink between them",
}
"""Of messages; two are of the log, two are help texts of metrics, four are of a condition."""


def texts(path: Path) -> Iterator[str]:
    """Every text in a module, `…` for what is filled in; docstrings aside."""
    tree = ast.parse(path.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        values = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
        if all(isinstance(value, str) for value in values):
            yield "".join(map(str, values))


def test_every_message_of_a_webhook_is_in_the_tables_and_no_other() -> None:
    items = [line[2:] for page in MESSAGES for line in page.splitlines() if line.startswith("- `")]
    rows = [re.match(r"(?:`[^`]+`(?:, )?)+", item) for item in items]
    patterns = [
        re.escape(message).replace("…", ".+")
        for row in rows
        if row
        for message in re.findall(r"`([^`]+)`", row[0])
    ]
    paths = [
        path
        for rule in RULES
        for path in (ROOT / "app").glob(rule)
        if path.name not in OTHERWISE_SHOWN
    ]
    said = {text for path in paths for text in texts(path)}
    messages = {
        text
        for text in said
        if text.count(" ") >= 3
        and not any(
            expression in text
            for expression in (
                "object.metadata.",
                "oldObject.metadata.",
                "object.spec.",
                "has(c.resources.",
            )
        )
    } - PARTS
    assert len(messages) > 50
    assert [
        text
        for text in sorted(messages)
        if not any(re.fullmatch(pattern, text) for pattern in patterns)
    ] == []
    assert [
        pattern for pattern in patterns if not any(re.fullmatch(pattern, text) for text in said)
    ] == []


def test_messages_that_the_page_of_units_quotes_are_those_of_the_code() -> None:
    page = (ROOT / "manifests" / "examples" / "units" / "README.md").read_text()
    quoted = re.findall(
        r"^\| `([^`]+)` \|", page.partition("## If a Pod is refused")[2], re.MULTILINE
    )
    parts = [part.strip() for message in quoted for part in message.split("…")]
    said = {
        text
        for folder in ("rules", "cluster", "objects")
        for path in (ROOT / "app" / folder).rglob("*.py")
        for text in texts(path)
    }
    long = [part for part in parts if part.count(" ") >= 2 and not part.startswith("Unsupported")]
    assert len(long) > 5
    assert [part for part in long if not any(part in text for text in said)] == []


def test_the_tables_that_repeat_the_code_are_as_the_code_has_them() -> None:
    assert [
        str(path)
        for path in tables.readmes()
        if tables.written(path.read_text()) != path.read_text()
    ] == []
    generated = "".join(path.read_text() for path in tables.readmes())
    assert {
        name for name in tables.TABLES if f"<!-- generated: {name} -->" not in generated
    } == set()


def test_the_readme_is_short_and_its_lines_too() -> None:
    assert len(README.splitlines()) <= 180
    assert [line for line in README.splitlines() if len(line) > 120] == []


def test_a_page_has_at_most_12_kb() -> None:
    assert len(tables.readmes()) > 50
    long = {path for path in tables.readmes() if path.stat().st_size > 12 * 1024}
    assert {str(path.relative_to(ROOT)) for path in long} == set()


def test_the_index_of_the_guide_leads_to_every_page() -> None:
    index = readme("manifests")
    assert [path.name for path in GUIDE.glob("*.md") if f"(guide/{path.name}" not in index] == []


def test_every_image_in_a_command_has_the_current_version() -> None:
    tags = {
        match
        for path in PAGES
        for match in re.findall(r"grove-admission:(\d[\w.]*)", path.read_text())
    }
    assert tags == {__version__}


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_readmes_leads_somewhere() -> None:
    links = [
        (path, link, anchor)
        for path in tables.readmes()
        for pattern in (r"\]\(([^)#:]*)(?:#([^)]*))?\)", r"^\[[\w-]+\]: ([^#:\s]+)(?:#(\S*))?$")
        for link, anchor in re.findall(pattern, path.read_text(), re.MULTILINE)
    ]
    assert len(links) > 100
    assert [
        (str(path), link, anchor)
        for path, link, anchor in links
        if not (target := (path.parent / link if link else path)).exists()
        or (anchor and anchor not in anchors(target))
    ] == []


NOT_RUN = {
    "AKS": "is a setting of Argo CD",
    "GKE": "is an object, and needs GKE",
    "OpenShift": "needs OpenShift",
    "Private registries": "is a part of a kustomization",
    "Make a release": "builds for minutes, and needs a registry",
    "A trial period": "needs Prometheus, and the logs of a cluster",
    "API servers under pressure": "is a part of a kustomization, which test_components.py has",
    "NetworkPolicies": "needs a kubelet, for port-forward",
    "Roll back": "needs the controller of Deployments",
    "The ClusterTopology CRD": "needs a CRD that is refused",
    "The image": "needs a registry",
    "When Grove changes to ClusterTopologyBindings": "needs a set that Grove can't delete",
    "With Argo CD or Flux": "is a setting of Argo CD",
}
"""Sections of the guide with commands that no test takes from there, and why."""


def test_every_command_of_the_guide_is_run_by_a_test_or_has_a_reason() -> None:
    """A test that takes the commands under a heading has the heading in its text."""
    tests = "".join(
        path.read_text()
        for pattern in ("installation/*.py", "integration/*.py", "test_manifests.py")
        for path in (ROOT / "tests").glob(pattern)
    )
    untested = {
        title
        for path in GUIDE.glob("*.md")
        if path.name != "alerts.md"  # its commands look for the cause of a fault that no test has
        for title, found in sections(path)
        if found and f'"{title}"' not in tests
    }
    assert untested == NOT_RUN.keys()


def test_the_page_for_contributors_names_files_that_exist() -> None:
    text = (ROOT / "app" / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|yaml))`", text))
    assert len(named) > 20
    assert [
        name
        for name in sorted(named)
        if not any((ROOT / folder / name).exists() for folder in ("", "app", "manifests"))
    ] == []


def threats() -> list[list[str]]:
    """The cells of each row of the tables of the threat model, without their heads."""
    text = "\n".join(path.read_text() for path in sorted(GUIDE.glob("threat-*.md")))
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[-1].strip() != "test"]


def existing_tests() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }


@pytest.mark.parametrize("row", threats(), ids=lambda row: "".join(row[:2]).strip())
def test_every_threat_has_its_cells_and_tests_that_exist(row: list[str]) -> None:
    *cells, tests = (cell.strip() for cell in row)
    names = re.findall(r"`(test_\w+)`", tests)
    assert all(cells)
    assert ", ".join(f"`{name}`" for name in names) == tests != ""
    assert set(names) - existing_tests() == set()


def test_the_threat_model_has_no_row_twice() -> None:
    rows = [tuple(row[:-1]) for row in threats()]
    assert len(rows) > 15
    assert len(set(rows)) == len(rows)
