"""Which CAs every client trusts, and for how long they have."""

import math
from collections.abc import Collection, Sequence


class Trust:
    """Follows the CAs that all bundles have in common. Times are monotonic, in seconds.

    API servers see a changed configuration a moment after it was written, so a CA counts only once it has been in
    every bundle without a break. If there are no bundles there are no clients, and anything may be shown.
    """

    def __init__(self) -> None:
        self._since: dict[bytes, float] = {}
        self._has_clients = True

    def see(self, bundles: Sequence[Collection[bytes]], at: float) -> None:
        """`bundles` are what each webhook trusts now: CAs, as PEM of one form."""
        common = set(bundles[0]).intersection(*bundles[1:]) if bundles else set()
        self._since = {ca: self._since.get(ca, at) for ca in common}
        self._has_clients = bool(bundles)

    def seconds(self, ca: bytes, at: float) -> float | None:
        """For how long `ca` has been trusted by all; None if it isn't."""
        if not self._has_clients:
            return math.inf
        since = self._since.get(ca)
        return None if since is None else at - since
