"""The error of an invalid configuration.

This module must import nothing else from `app`, because every command imports it.
"""

from collections.abc import Sequence


class ConfigurationError(ValueError):
    """The configuration is invalid.

    `findings` has all reasons. A reason that is about one field begins with the path of the field.
    """

    def __init__(self, source: str, findings: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {finding}" for finding in findings))
        self.findings = tuple(findings)
