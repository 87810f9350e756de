"""The CAs that all clients trust, and for how long."""

import math
from collections.abc import Collection, Sequence


class Trust:
    """Tracks the CAs that all bundles have in common. Times are monotonic, in seconds.

    API servers get a changed configuration with a delay, so the time counts for which a CA has been in every bundle
    without interruption. Without bundles there are no clients, and every CA counts as trusted.
    """

    def __init__(self) -> None:
        self._since: dict[bytes, float] = {}
        self._has_clients = True

    def see(self, bundles: Sequence[Collection[bytes]], at: float) -> None:
        """Notes the CAs, as normalized PEM, that each webhook trusts at the time `at`."""
        common = set(bundles[0]).intersection(*bundles[1:]) if bundles else set()
        self._since = {ca: self._since.get(ca, at) for ca in common}
        self._has_clients = bool(bundles)

    def seconds(self, ca: bytes, at: float) -> float | None:
        """The seconds for which all webhooks have trusted `ca`; None if one does not."""
        if not self._has_clients:
            return math.inf
        since = self._since.get(ca)
        return None if since is None else at - since
