"""Read the configuration of the installed server, if the user gives none."""

from collections.abc import Iterator

from app.base.value import Value
from app.config.error import ConfigurationError
from app.config.read import read_configuration, with_overrides
from app.config.schema import Configuration
from app.doctor.replicas import NAME
from app.kube.api import Client, ClusterError, Object, ObjectRef, find
from app.objects.resource import CONFIG_MAP, DEPLOYMENT
from app.objects.shape import map_at, maps_at, text_at

_FILE = "config.yaml"


class Found(Value):
    """The configuration in the ConfigMap that the Deployment mounts."""

    source: str
    """The ConfigMap, such as `ConfigMap grove-system/grove-admission-configuration-1`."""
    configuration: Configuration | None
    """The configuration, or None if it is invalid."""
    problem: str = ""
    """Why the configuration is invalid, or ""."""


async def find_configuration(client: Client, namespace: str) -> Found | None:
    """Return the configuration of the Deployment `grove-admission` in `namespace`.

    Return None if there is no such Deployment or ConfigMap, or if this process may not read them.
    """
    try:
        deployment = await find(client, ObjectRef(DEPLOYMENT, NAME, namespace)) or {}
        for name in _config_maps(deployment):
            config_map = await find(client, ObjectRef(CONFIG_MAP, name, namespace)) or {}
            text = text_at(map_at(config_map, "data"), _FILE)
            if text:
                return _read(text, f"ConfigMap {namespace}/{name}", deployment, namespace)
    except ClusterError:
        pass
    return None


def _config_maps(deployment: Object) -> Iterator[str]:
    for volume in maps_at(deployment, "spec", "template", "spec", "volumes"):
        name = text_at(map_at(volume, "configMap"), "name")
        if name:
            yield name


def _read(text: str, source: str, deployment: Object, namespace: str) -> Found:
    """Return the configuration in `text`, with the overrides of the container's variables."""
    containers = maps_at(deployment, "spec", "template", "spec", "containers")
    environment = {
        text_at(variable, "name"): text_at(variable, "value")
        for container in containers
        if container.get("name") == NAME
        for variable in maps_at(container, "env")
        if "value" in variable
    }
    try:
        configuration = read_configuration(text, source)
        environment["POD_NAMESPACE"] = namespace
        return Found(source, with_overrides(configuration, environment, {}))
    except ConfigurationError as error:
        return Found(source, None, f"{source}: {'; '.join(error.findings)}")
