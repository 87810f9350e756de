"""Authenticate users by the tokens of the kubeconfig, and service accounts by TokenRequests."""

import secrets
from collections.abc import Mapping

from msgspec import Struct

from scripts.apiserver.objects.objects import Key, Object, User, copy, metadata, service_account
from scripts.apiserver.storage import Storage

_ACCOUNTS = ("", "serviceaccounts")


class Tokens(Struct):
    """The bearer tokens, which do not expire.

    `users` are the users of the kubeconfig, by token. A service account is removed from `free` when
    it gets its first token, so that RBAC applies to it.
    """

    storage: Storage
    users: Mapping[str, User]
    free: set[str]
    _accounts: dict[str, tuple[Key, str]] = {}

    def user(self, token: str) -> User | None:
        """Return the user of `token`.

        Return None if the token is unknown or its ServiceAccount was deleted.
        """
        if token in self.users:
            return self.users[token]
        key, uid = self._accounts.get(token, (("", ""), ""))
        account = self.storage.get(_ACCOUNTS, key)
        return (
            service_account(*key)
            if account is not None and metadata(account)["uid"] == uid
            else None
        )

    def issue(self, key: Key, request: Object) -> Object:
        """Return the TokenRequest with a new token for the ServiceAccount `key`.

        Raise 404 if the ServiceAccount does not exist.
        """
        account = self.storage.existing(_ACCOUNTS, key)
        token = secrets.token_urlsafe(24)
        self._accounts[token] = key, metadata(account)["uid"]
        self.free.discard(service_account(*key).name)
        return {**copy(request), "status": {"token": token}}
