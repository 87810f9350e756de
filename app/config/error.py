"""What a configuration that cannot be used raises.

Imports nothing, because every command imports it.
"""

from collections.abc import Sequence


class ConfigurationError(ValueError):
    """The configuration is invalid. `findings` has all reasons, each with its path."""

    def __init__(self, source: str, findings: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {finding}" for finding in findings))
        self.findings = tuple(findings)
