"""Reads an OperatorConfiguration strictly, and reports all findings together."""

import logging
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from app.config.error import ConfigurationError
from app.config.schema import API_VERSION, KIND, Configuration
from app.objects.fields import FieldPath

logger = logging.getLogger(__name__)


def read_configuration(text: str, source: str) -> Configuration:
    """The configuration in `text`, a YAML document. `source` is its name in findings. Raises ConfigurationError with
    all findings. Findings about levels that are not used are logged as warnings."""
    try:
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: for an invalid date
        raise ConfigurationError(source, [f"not YAML that can be read: {problem}"]) from None
    except RecursionError:
        raise ConfigurationError(source, ["not YAML that can be read: it is nested too deeply"]) from None
    if not isinstance(data, dict):
        raise ConfigurationError(source, [f"must be a map with apiVersion {API_VERSION} and kind {KIND}"])
    if data.get("kind") == "ConfigMap":
        raise ConfigurationError(
            source, ["is a ConfigMap: give what its data has as config.yaml, as a file of its own"]
        )
    findings = [
        f"{name}: must be {expected}, not {data.get(name)!r}"
        for name, expected in (("apiVersion", API_VERSION), ("kind", KIND))
        if data.get(name) != expected
    ]
    try:
        configuration = Configuration.model_validate({**data, "apiVersion": API_VERSION, "kind": KIND})
    except ValidationError as problem:
        findings += [_finding(error) for error in problem.errors()]
        configuration = Configuration()
    if findings:
        raise ConfigurationError(source, findings)
    topology = configuration.cluster_topology
    if topology.levels and not topology.enabled:
        for finding in topology.findings():
            logger.warning(
                "%s: clusterTopology.%s (not used, because clusterTopology.enabled is false)", source, finding
            )
    return configuration


def load_configuration(path: Path) -> Configuration:
    """The configuration in a file. Raises ConfigurationError if the file cannot be read or is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(str(path), [f"can't be read: {problem}"]) from None
    return read_configuration(text, str(path))


def configuration_or_defaults(path: Path | None) -> Configuration:
    """The configuration in `path`, or without a path the defaults with topology support enabled."""
    if path is not None:
        return load_configuration(path)
    defaults = Configuration()
    topology = defaults.cluster_topology.model_copy(update={"enabled": True})
    return defaults.model_copy(update={"cluster_topology": topology})


def _finding(error: Any) -> str:
    path = FieldPath("")
    for step in error["loc"]:
        path = path.index(step) if isinstance(step, int) else path.child(str(step))
    if error["type"] == "extra_forbidden":
        return f"{path}: unknown key"
    return f"{path}: {error['msg'].removeprefix('Value error, ')}"


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a duplicate key is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep=deep)
