"""The settings of a console. They need none of the packages that its pages need."""

from collections.abc import Sequence
from pathlib import Path

from app.base.value import Value
from app.config.schema import Configuration


class ConsoleSettings(Value):
    """The options of the command.

    If `port` is 0, a free one is taken. `namespaces` are read one by one if the user has no right
    to read all; if there are none, those that the user may list are read, else `own_namespace`.
    """

    configuration: Configuration
    kubeconfig: Path | None
    context: str | None
    context_name: str
    namespaces: Sequence[str] = ()
    own_namespace: str = ""
    port: int = 0
    ipv6: bool = False
