"""The settings of a console. This module needs none of the packages of its pages."""

from collections.abc import Sequence
from pathlib import Path

from app.base.value import Value
from app.config.schema import Configuration


class ConsoleSettings(Value):
    """The options of the command.

    With `port` 0, a free port is used. If the user may not list all namespaces, `namespaces` are
    read one by one. Without `namespaces`, the namespaces that the user may list are read, or else
    `own_namespace`.
    """

    configuration: Configuration
    kubeconfig: Path | None
    context: str | None
    context_name: str
    namespaces: Sequence[str] = ()
    own_namespace: str = ""
    port: int = 0
    ipv6: bool = False
