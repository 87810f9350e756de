"""Who asks: the users of the kubeconfig, and service accounts by the tokens that were made for them (TokenRequest)."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Key, Object, User, copy, metadata, timestamp
from app.sandbox.storage.storage import Storage

_ACCOUNTS = ("", "serviceaccounts")
_SECONDS = 3600


class Tokens:
    """Bearer tokens, which don't expire. `users` are the fixed ones, by token. A service account is added to `limited`
    with its first token: roles decide what it may do."""

    def __init__(self, storage: Storage, users: Mapping[str, User], limited: set[str]) -> None:
        self._storage, self._users, self._limited = storage, dict(users), limited
        self._accounts: dict[str, tuple[Key, str]] = {}

    def user(self, token: str) -> User | None:
        """None for an unknown token, and for one of a ServiceAccount that has been deleted since."""
        if token in self._users:
            return self._users[token]
        key, uid = self._accounts.get(token, (("", ""), ""))
        account = self._storage.get(_ACCOUNTS, key)
        return service_account(*key) if account is not None and metadata(account)["uid"] == uid else None

    def issue(self, key: Key, request: Object) -> Object:
        """Answers a TokenRequest for the ServiceAccount `key`. Raises 404 if there is none."""
        account = self._storage.get(_ACCOUNTS, key)
        if account is None:
            raise errors.not_found("", "serviceaccounts", key[1])
        token = secrets.token_urlsafe(24)
        self._accounts[token] = key, metadata(account)["uid"]
        self._limited.add(service_account(*key).name)
        seconds = (request.get("spec") or {}).get("expirationSeconds") or _SECONDS
        expiry = timestamp(datetime.now(UTC) + timedelta(seconds=seconds))
        return {**copy(request), "status": {"token": token, "expirationTimestamp": expiry}}


def service_account(namespace: str, name: str) -> User:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)
