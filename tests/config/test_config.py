"""The configuration: strict, with all findings at once.

Tests `app/config/error.py`, `app/config/read.py` and `app/config/schema.py`.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.error import ConfigurationError
from app.config.read import load_configuration, read_configuration, with_overrides
from app.config.schema import Configuration
from app.facts.grove.topology import Level

HEAD = "apiVersion: config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
EXAMPLE = Path(__file__).parent.parent.parent / "manifests" / "examples" / "configuration.yaml"


def read(text: str) -> Configuration:
    return read_configuration(HEAD + text, "file")


@pytest.mark.statement("3.53")
def test_an_empty_configuration_is_the_defaults() -> None:
    assert read("") == Configuration()
    assert Configuration().cluster_topology.enabled is False


@pytest.mark.statement("1.1")
def test_the_example_can_be_used_and_shows_defaults() -> None:
    example = load_configuration(EXAMPLE)
    assert [level.domain for level in example.levels] == ["zone", "block", "rack", "host"]
    assert (
        example.model_copy(update={"cluster_topology": Configuration().cluster_topology})
        == Configuration()
    )


def test_the_example_has_every_key() -> None:
    def without(example: dict[str, Any], defaults: dict[str, Any], path: str = "") -> list[str]:
        missing = [path + key for key in defaults.keys() - example.keys()]
        for key, value in defaults.items():
            if isinstance(value, dict):
                missing += without(example.get(key, {}), value, f"{path}{key}.")
        return missing

    assert (
        without(yaml.safe_load(EXAMPLE.read_text()), Configuration().model_dump(by_alias=True))
        == []
    )


BAD_LEVELS = "levels: [{domain: rack, key: a}, {domain: rack, key: b}, {domain: shelf, key: c}]"


@pytest.mark.statement("1.89")
def test_levels_are_not_checked_if_topology_is_disabled() -> None:
    assert read(f"clusterTopology: {{enabled: false, {BAD_LEVELS}}}").levels == ()
    with pytest.raises(ConfigurationError, match="Duplicate value"):
        read(f"clusterTopology: {{enabled: true, {BAD_LEVELS}}}")


@pytest.mark.statement("1.1", "1.13", "1.65", "1.68")
def test_levels_are_read_broadest_first() -> None:
    text = (
        "clusterTopology: {enabled: true, levels: [{domain: host, key: h}, {domain: rack, key: r}]}"
    )
    assert read(text).levels == (Level("rack", "r"), Level("host", "h"))


@pytest.mark.statement("1.191")
def test_an_empty_name_is_the_default_while_the_topology_is_disabled() -> None:
    assert read("clusterTopology: {name: ''}").cluster_topology.name == "grove-topology"
    with pytest.raises(ConfigurationError):
        read(
            "clusterTopology: {enabled: true, name: '', levels: [{domain: host, key: h}]}",
        )


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        pytest.param("colour: blue", ["file: colour: unknown key"], id="unknown key"),
        pytest.param(
            "clusterTopology: {levels: [{domain: host, key: a/b, keys: x}]}",
            ["file: clusterTopology.levels[0].keys: unknown key. Did you mean key?"],
            id="misspelt key in a list",
        ),
        pytest.param(
            "server: {prot: 1}",
            ["file: server.prot: unknown key. Did you mean port?"],
            id="unknown key inside",
        ),
        pytest.param(
            "server: {port: 99999}", ["file: server.port: Input should be less than"], id="port"
        ),
        pytest.param(
            'server: {port: "8443"}',
            ["file: server.port: Input should be a valid integer"],
            id="text",
        ),
        pytest.param(
            "mnnvl: {claimMode: both}",
            ["file: mnnvl.claimMode: Input should be 'auto', 'shared' or"],
            id="mode",
        ),
        pytest.param(
            "clusterTopology: {enabled: yep}",
            ["file: clusterTopology.enabled: Input should be"],
            id="bool",
        ),
        pytest.param(
            "clusterTopology: {enabled: true}",
            ["clusterTopology: levels: Required value"],
            id="no levels",
        ),
        pytest.param(
            "clusterTopology: {name: A_b}", ["clusterTopology.name: must be a lowercase"], id="name"
        ),
        pytest.param(
            "clusterTopology:", ["file: clusterTopology: must be a map"], id="null section"
        ),
        pytest.param(
            "clusterTopology: {enabled: true, levels: [{domain: rack, key: a}, {domain: rack, key: -}]}",
            ['levels[1].domain: Duplicate value: "rack"; levels[1].key: Invalid value: "-"'],
            id="every level's findings",
        ),
        pytest.param(
            "certificates: {mode: manual}",
            ["certificates.mode: Input should be 'files' or"],
            id="certs",
        ),
        pytest.param(
            "certificates: {secretName: A_b}",
            ["certificates.secretName: must be a lowercase"],
            id="secret",
        ),
        pytest.param(
            "certificates: {caValidityHours: 6479}",
            ["certificates: caValidityHours must be at least 6480, 3 times validityHours"],
            id="a CA that cuts its leaves short",
        ),
        pytest.param(
            "certificates: {validityHours: 0.04}",
            ["certificates: settleSeconds must be at most 24, a sixth of validityHours"],
            id="a wait longer than a renewal leaves",
        ),
        pytest.param(
            "podBinding: {nodeLabels: [a b, ok]}",
            ["podBinding.nodeLabels[0]: 'a b' must be"],
            id="label keys",
        ),
        pytest.param(
            "a: 1\nserver: {port: -1}\nmnnvl: {b: 2}",
            ["server.port: Input", "mnnvl.b: unknown key", "a: unknown key"],
            id="everything at once",
        ),
        pytest.param(
            "server: {port: 1}\nserver: {port: 2}",
            ["key 'server' is given twice"],
            id="a key twice",
        ),
        pytest.param("a: [", ["can't be parsed as YAML"], id="not YAML"),
        pytest.param("a: !!set [b]", ["expected a mapping node"], id="a set that is a list"),
        pytest.param("a: 2026-99-99", ["month must be in 1..12"], id="a date that is none"),
        pytest.param(
            "cluster_topology: {enabled: true}",
            ["file: cluster_topology: unknown key. Did you mean clusterTopology?"],
            id="snake case",
        ),
        pytest.param(
            "server: {drain_seconds: 1}",
            ["file: server.drain_seconds: unknown key. Did you mean drainSeconds?"],
            id="snake case inside",
        ),
        pytest.param("? [a]\n: 1", ["a key must be a string"], id="a list as a key"),
        pytest.param("? {a: b}\n: 1", ["a key must be a string"], id="a map as a key"),
        pytest.param(
            "server: {1: 2}", ["file: server[1]: Keys should be strings"], id="a number as a key"
        ),
        pytest.param(
            "server: {port: !!int ''}", ["does not match its YAML tag"], id="an empty number"
        ),
        pytest.param("server: {port: !!bool 7}", ["does not match its YAML tag"], id="no boolean"),
        pytest.param(
            "server: {port: 1" + ":1" * 300 + ".5}",
            ["does not match its YAML tag or type"],
            id="a number to the base of 60",
        ),
        pytest.param(
            "server: " + "[" * 600, ["the document is nested too deeply"], id="deep nesting"
        ),
        pytest.param(
            "server: &a {x: *a}", ["file: server.x: unknown key"], id="a map that holds itself"
        ),
        pytest.param(
            "server: {port: true}",
            ["file: server.port: Input should be a valid integer"],
            id="true is no 1",
        ),
        pytest.param(
            "server: {drainSeconds: .nan}", ["file: server.drainSeconds: Input"], id="not a number"
        ),
        pytest.param("a: 1\n---\nb: 2", ["expected a single document"], id="two documents"),
        pytest.param(
            "server: !!python/object:os.system {}",
            ["could not determine a constructor"],
            id="a tag",
        ),
        pytest.param(
            "authorization: {authorizedUsers: alice}",
            ["file: authorization.authorizedUsers: must be a list"],
            id="one user in place of a list",
        ),
        pytest.param("mnnvl: auto", ["file: mnnvl: must be a map"], id="a text as a section"),
        pytest.param(
            "clusterTopology: {levels: [{domain: rack, key: r, x: 1}, {domain: host}]}",
            [
                "file: clusterTopology.levels[0].x: unknown key",
                "file: clusterTopology.levels[1].key: Field required",
            ],
            id="levels, each with its own",
        ),
    ],
)
@pytest.mark.statement(
    "1.43",
    "1.66",
    "1.67",
    "1.72",
    "1.73",
    "1.74",
    "1.82",
    "1.83",
    "1.84",
    "1.85",
    "1.86",
    "1.87",
    "1.88",
)
def test_what_is_wrong_is_said(text: str, findings: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert len(caught.value.findings) == len(findings)
    lines = str(caught.value).split("\n")
    for finding in findings:
        assert any(finding in line for line in [*lines, str(caught.value)])


@pytest.mark.parametrize("text", ["", "[]", "hello"])
def test_a_file_that_is_no_map(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a map with apiVersion"):
        read_configuration(text, "file")


def test_another_kind_is_refused_with_the_rest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration("kind: Pod\nx: 1", "file")
    assert caught.value.findings == (
        "apiVersion: must be config.grove.io/v1alpha1, but is missing",
        "kind: must be OperatorConfiguration, not 'Pod'",
        "x: unknown key",
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path / "none.yaml")
    message = f"{tmp_path}/none.yaml: can't be read: No such file or directory"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("environment", "flags", "host", "port"),
    [
        ({}, {}, "::", 8443),
        ({"GROVE_ADMISSION_HOST": "::1", "GROVE_ADMISSION_PORT": "1"}, {}, "::1", 1),
        ({"GROVE_ADMISSION_PORT": "1"}, {"port": 2, "host": None}, "::", 2),
        pytest.param(
            {"GROVE_ADMISSION_PORT": "tcp://10.0.0.7:443"},
            {},
            "::",
            8443,
            id="a Service's, by kubelet",
        ),
    ],
)
def test_flags_stand_above_the_environment_above_the_file(
    environment: dict[str, str], flags: dict[str, Any], host: str, port: int
) -> None:
    server = with_overrides(Configuration(), environment, flags).server
    assert (server.host, server.port) == (host, port)


@pytest.mark.parametrize("port", ["http", "-1", "70000", "", "9" * 5000])
def test_a_bad_port_in_the_environment(port: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a port number from 0 to 65535"):
        with_overrides(Configuration(), {"GROVE_ADMISSION_PORT": port}, {})


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        pytest.param("", {}, "grove-system", id="our own name for it"),
        pytest.param("", {"POD_NAMESPACE": "elsewhere"}, "elsewhere", id="that of the Pod"),
        pytest.param(
            "certificates: {mode: self-managed}",
            {"POD_NAMESPACE": "elsewhere"},
            "elsewhere",
            id="not one that is omitted",
        ),
        pytest.param(
            "certificates: {namespace: given}",
            {"POD_NAMESPACE": "elsewhere"},
            "given",
            id="the one given",
        ),
    ],
)
def test_the_namespace_of_the_certificates(
    text: str, environment: dict[str, str], expected: str
) -> None:
    assert with_overrides(read(text), environment, {}).certificates.namespace == expected


def test_a_configmap_is_told_from_what_is_in_it() -> None:
    with pytest.raises(
        ConfigurationError, match=r"is a ConfigMap. Copy the value of its key config\.yaml"
    ):
        read_configuration("apiVersion: v1\nkind: ConfigMap\ndata: {}\n", "test")


@pytest.mark.statement("1.48")
def test_the_lease_and_our_own_account_are_in_the_namespace_of_the_pod() -> None:
    moved = with_overrides(read(""), {"POD_NAMESPACE": "elsewhere"}, {})
    assert moved.leader_election.namespace == "elsewhere"
    assert moved.authorization.authorized_users == (
        "system:serviceaccount:elsewhere:grove-admission",
        "system:serviceaccount:grove-system:grove-operator",
    )
    text = "leaderElection: {namespace: given}\nauthorization: {authorizedUsers: [somebody]}\n"
    kept = with_overrides(read(text), {"POD_NAMESPACE": "elsewhere"}, {})
    assert (kept.leader_election.namespace, kept.authorization.authorized_users) == (
        "given",
        ("system:serviceaccount:elsewhere:grove-admission", "somebody"),
    )


@pytest.mark.parametrize(
    ("text", "environment", "flags"),
    [
        ("server: {port: 9443, toolsPort: 9443}", {}, {}),
        ("server: {toolsPort: 9443}", {"GROVE_ADMISSION_PORT": "9443"}, {}),
        ("server: {port: 9443}", {}, {"tools_port": 9443}),
    ],
)
def test_two_ports_cannot_be_the_same(
    text: str, environment: dict[str, str], flags: dict[str, int]
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        with_overrides(read(text), environment, flags)
    assert str(raised.value) == "server: port and toolsPort must differ, but both are 9443"


def test_both_ports_may_be_free_ones() -> None:
    server = with_overrides(read("server: {port: 0, toolsPort: 0}"), {}, {}).server
    assert (server.port, server.tools_port) == (0, 0)


@pytest.mark.parametrize("users", ["[]", "[somebody]", "[somebody, OURS]"])
def test_our_own_account_may_always_write_the_managed_topology(users: str) -> None:
    ours = "system:serviceaccount:grove-system:grove-admission"
    text = f"authorization: {{authorizedUsers: {users}}}\n".replace("OURS", ours)
    authorized = with_overrides(read(text), {}, {}).authorization.authorized_users
    assert authorized.count(ours) == 1
    assert ("somebody" in authorized) == ("somebody" in users)


def test_the_mode_of_certificates_may_come_from_the_environment() -> None:
    config = read("certificates: {mode: self-managed, validityHours: 100}")
    told = with_overrides(config, {"GROVE_ADMISSION_CERTIFICATES_MODE": "files"}, {}).certificates
    assert (told.mode, told.validity_hours) == ("files", 100)
    with pytest.raises(ConfigurationError, match="must be files or self-managed, not 'none'"):
        with_overrides(config, {"GROVE_ADMISSION_CERTIFICATES_MODE": "none"}, {})
