"""Define the settings of a console. This module imports none of the packages that pages need."""

from collections.abc import Sequence
from pathlib import Path

from app.base.value import Value
from app.config.schema import Configuration


class ConsoleSettings(Value):
    """The options of the command `console`."""

    configuration: Configuration
    """The configuration of the server, for Findings and Playground."""
    kubeconfig: Path | None
    """The kubeconfig file, or None for the one that kubectl uses."""
    context: str | None
    """The context of the kubeconfig, or None for the current one."""
    context_name: str
    """The name of the context that is used."""
    namespaces: Sequence[str] = ()
    """The namespaces to read if the user may not list a kind in all namespaces at once.

    If there are none, the console reads each namespace, or only `own_namespace` if the user may not
    list namespaces.
    """
    own_namespace: str = ""
    """The namespace of the context, or `default` if the context names none."""
    port: int = 0
    """The port on loopback, or 0 for a free one."""
    ipv6: bool = False
    """Does the console listen on ::1 instead of 127.0.0.1?"""
