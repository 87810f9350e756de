"""The error of an invalid configuration.

This module must import nothing else from `app`, because every command imports it.
"""

from collections.abc import Sequence


class ConfigurationError(ValueError):
    """The configuration is invalid. `findings` are all reasons, each with the path of its field."""

    def __init__(self, source: str, findings: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {finding}" for finding in findings))
        self.findings = tuple(findings)
