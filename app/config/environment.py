"""Overrides by environment variables and flags."""

from collections.abc import Mapping
from typing import Any, get_args

from app.config.error import ConfigurationError
from app.config.schema import CertificateMode, Certificates, Configuration, own_account

_MODE = "GROVE_ADMISSION_CERTIFICATES_MODE"

_SERVICE_LINK = "tcp://"
"""The begin of GROVE_ADMISSION_PORT if the kubelet sets it for the Service grove-admission; it is then not a
setting."""


def with_overrides(
    configuration: Configuration, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Configuration:
    """`configuration` with `server.host` and `server.port` from `flags`, or else from GROVE_ADMISSION_HOST and
    GROVE_ADMISSION_PORT, and with `certificates.mode` from GROVE_ADMISSION_CERTIFICATES_MODE. POD_NAMESPACE is the
    default of the namespaces of the Secret, the Service, the Lease and our service account. Raises
    ConfigurationError."""
    server: dict[str, Any] = {}
    if "GROVE_ADMISSION_HOST" in environment:
        server["host"] = environment["GROVE_ADMISSION_HOST"]
    port = environment.get("GROVE_ADMISSION_PORT", _SERVICE_LINK)
    if not port.startswith(_SERVICE_LINK):
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigurationError("GROVE_ADMISSION_PORT", [f"must be a port number, not {port!r}"])
        server["port"] = int(port)
    server |= {name: value for name, value in flags.items() if value is not None}
    updates: dict[str, Any] = {"server": configuration.server.model_copy(update=server)}
    if _MODE in environment:
        updates["certificates"] = _with_mode(configuration.certificates, environment[_MODE])
    configuration = configuration.model_copy(update=updates)
    return _moved(configuration, environment["POD_NAMESPACE"]) if "POD_NAMESPACE" in environment else configuration


def _with_mode(certificates: Certificates, mode: str) -> Certificates:
    if mode not in get_args(CertificateMode):
        allowed = " or ".join(get_args(CertificateMode))
        raise ConfigurationError(_MODE, [f"must be {allowed}, not {mode!r}"])
    return certificates.model_copy(update={"mode": mode})


def _moved(configuration: Configuration, namespace: str) -> Configuration:
    """The configuration with `namespace` in place of the default `grove-system`."""
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
