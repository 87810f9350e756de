"""Read an OperatorConfiguration.

Unknown and duplicate keys are errors. In a valid YAML document, all invalid values are reported
together. Environment variables and flags override values of the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from app.base.spelling import nearest
from app.config.error import ConfigurationError
from app.config.schema import (
    API_VERSION,
    DEFAULT_NAMESPACE,
    KIND,
    CertificateMode,
    Certificates,
    Configuration,
    own_account,
)
from app.objects.fields import FieldPath
from app.objects.shape import integer_in

_MODE = "GROVE_ADMISSION_CERTIFICATES_MODE"

_PORTS = {"GROVE_ADMISSION_PORT": "port", "GROVE_ADMISSION_TOOLS_PORT": "tools_port"}

_SERVICE_LINK = "tcp://"
"""The beginning of the value that the kubelet gives to GROVE_ADMISSION_PORT.

The kubelet sets a variable of this name for a Service named grove-admission. The value is a URL of
this Service and not our port, so it is ignored.
"""

_UNFIT = (LookupError, AttributeError, TypeError, ArithmeticError)
"""The errors of PyYAML for a value that does not fit its tag, such as KeyError for `!!bool 7`."""


_EXPECTED = {"tuple_type": "a list", "model_type": "a map"}
"""The expected value in YAML's words, by Pydantic's error type."""


def read_configuration(text: str, source: str) -> Configuration:
    """Return the configuration in the YAML document `text`.

    `source` is the name of the document in findings. Raise ConfigurationError if it is invalid.
    """
    data = _read_map(text, source)
    findings = [
        f"{name}: must be {expected}, "
        + (f"not {data[name]!r}" if name in data else "but is missing")
        for name, expected in (("apiVersion", API_VERSION), ("kind", KIND))
        if data.get(name) != expected
    ]
    try:
        configuration = Configuration.model_validate(
            {**data, "apiVersion": API_VERSION, "kind": KIND}
        )
    except ValidationError as problem:
        findings += [_finding(error) for error in problem.errors()]
        configuration = Configuration()

    if findings:
        raise ConfigurationError(source, findings)
    return configuration


def _read_map(text: str, source: str) -> dict[str, Any]:
    """Return the map in the YAML document `text`.

    Raise ConfigurationError if `text` is not valid YAML, not a map, or a ConfigMap.
    """
    try:
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: for an invalid date
        raise _unreadable(source, str(problem)) from None
    except RecursionError:
        raise _unreadable(source, "the document is nested too deeply") from None
    except _UNFIT:
        raise _unreadable(source, "a value does not match its YAML tag or type") from None

    if not isinstance(data, dict):
        expected = f"must be a map with apiVersion {API_VERSION} and kind {KIND}"
        raise ConfigurationError(source, [expected])
    if data.get("kind") == "ConfigMap":
        advice = (
            "is a ConfigMap. Copy the value of its key config.yaml into a file, and give that file"
            " with --config"
        )
        raise ConfigurationError(source, [advice])

    return data


def _unreadable(source: str, reason: str) -> ConfigurationError:
    return ConfigurationError(source, [f"can't be parsed as YAML: {reason}"])


def load_configuration(path: Path) -> Configuration:
    """Return the configuration in the file `path`.

    Raise ConfigurationError if the file cannot be read or is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ConfigurationError(str(path), [f"can't be read: {problem.strerror}"]) from None
    except UnicodeDecodeError as problem:
        raise ConfigurationError(str(path), [f"can't be read: {problem}"]) from None
    return read_configuration(text, str(path))


def configuration_or_defaults(path: Path | None) -> Configuration:
    """Return the configuration in the file `path`.

    Without a path, return the default configuration, with topology support enabled. Raise
    ConfigurationError if the file cannot be read or is invalid.
    """
    if path is not None:
        return load_configuration(path)
    return with_topology(Configuration())


def with_topology(configuration: Configuration) -> Configuration:
    """Return `configuration` with topology support enabled, even if it has no levels."""
    topology = configuration.cluster_topology.model_copy(update={"enabled": True})
    return configuration.model_copy(update={"cluster_topology": topology})


def _finding(error: Any) -> str:
    """Return the message for one of Pydantic's errors. It begins with the path of the field."""
    path = FieldPath("")
    for step in error["loc"]:
        path = path.index(step) if isinstance(step, int) else path.child(str(step))
    if error["type"] == "extra_forbidden":
        *section, key = (step for step in error["loc"] if isinstance(step, str))
        similar = nearest(key, _keys_of(section))
        return f"{path}: unknown key" + (f". Did you mean {similar}?" if similar else "")
    if error["type"] in _EXPECTED:
        return f"{path}: must be {_EXPECTED[error['type']]}"
    return f"{path}: {error['msg'].removeprefix('Value error, ')}"


def _keys_of(section: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the section at a path of keys, such as ["clusterTopology", "levels"]."""
    model: type[BaseModel] = Configuration
    for key in section:
        kind = next(field.annotation for field in model.model_fields.values() if field.alias == key)
        items = [item for item in get_args(kind) if item is not Ellipsis]
        model = items[0] if items else kind  # type: ignore[assignment]
    return tuple(field.alias or "" for field in model.model_fields.values())


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys, and keys that are maps or lists."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a string", key_node.start_mark
                )
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            keys.add(key)

        return super().construct_mapping(node, deep=deep)


def with_overrides(
    configuration: Configuration, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Configuration:
    """Return `configuration` with the overrides from flags and environment variables.

    - `server.host`, `server.port`, `server.toolsPort`: from `flags`, otherwise from
      GROVE_ADMISSION_HOST, GROVE_ADMISSION_PORT and GROVE_ADMISSION_TOOLS_PORT
    - `certificates.mode`: from GROVE_ADMISSION_CERTIFICATES_MODE
    - the namespaces of the Secret, the Service, the Lease and our service account, if the file does
      not set them: from POD_NAMESPACE

    Our own service account is added to `authorization.authorizedUsers` if the file leaves it out.
    Raise ConfigurationError for an invalid value of a variable, or if both ports are the same.
    """
    server: dict[str, Any] = {}
    if "GROVE_ADMISSION_HOST" in environment:
        server["host"] = environment["GROVE_ADMISSION_HOST"]

    for name, key in _PORTS.items():
        port = environment.get(name, _SERVICE_LINK)
        if port.startswith(_SERVICE_LINK):
            continue
        number = integer_in(port)
        if number is None or not 0 <= number <= 65535:
            raise ConfigurationError(name, [f"must be a port number from 0 to 65535, not {port!r}"])
        server[key] = number

    server |= {name: value for name, value in flags.items() if value is not None}
    merged = configuration.server.model_copy(update=server)
    if merged.port == merged.tools_port != 0:
        reason = f"port and toolsPort must differ, but both are {merged.port}"
        raise ConfigurationError("server", [reason])
    updates: dict[str, Any] = {"server": merged}
    if _MODE in environment:
        updates["certificates"] = _with_mode(configuration.certificates, environment[_MODE])

    configuration = configuration.model_copy(update=updates)
    if "POD_NAMESPACE" not in environment:
        return _with_own_account(configuration, DEFAULT_NAMESPACE)
    namespace = environment["POD_NAMESPACE"]
    return _with_own_account(_moved(configuration, namespace), namespace)


def _with_mode(certificates: Certificates, mode: str) -> Certificates:
    if mode not in get_args(CertificateMode):
        allowed = " or ".join(get_args(CertificateMode))
        raise ConfigurationError(_MODE, [f"must be {allowed}, not {mode!r}"])
    return certificates.model_copy(update={"mode": mode})


def _with_own_account(configuration: Configuration, namespace: str) -> Configuration:
    """Return `configuration` with our account in `namespace` among the authorized users.

    Without it, our webhook would reject the leader's write of the managed topology, and all
    replicas would exit, one leader after the other.
    """
    authorization = configuration.authorization
    account = own_account(namespace)
    if account in authorization.authorized_users:
        return configuration
    users = (account, *authorization.authorized_users)
    updated = authorization.model_copy(update={"authorized_users": users})
    return configuration.model_copy(update={"authorization": updated})


def _moved(configuration: Configuration, namespace: str) -> Configuration:
    """Return `configuration` with `namespace` instead of our default namespace, `grove-system`.

    Fields that the file sets, and the account of Grove's operator, are not changed.
    """
    moved: dict[str, Any] = {}
    for name in ("certificates", "leader_election"):
        section = getattr(configuration, name)
        if "namespace" not in section.model_fields_set:
            moved[name] = section.model_copy(update={"namespace": namespace})
    authorization = configuration.authorization
    if "authorized_users" not in authorization.model_fields_set:
        users = (own_account(namespace), *authorization.authorized_users[1:])
        moved["authorization"] = authorization.model_copy(update={"authorized_users": users})
    return configuration.model_copy(update=moved)
