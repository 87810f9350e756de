"""Write tokens into the paths of our webhooks, to distinguish API servers from other callers.

All replicas write tokens. A token is stored only in the webhook configurations. While API servers
use only paths with a token, a review without a token is refused. At other times, it gets a verdict,
but all writes except those for deletions of PodGangs are left to the leader. With
`server.clientCaFile`, client certificates decide instead. The rules are:

- A token is written only if all our Pods know tokens. While an older version is rolled out or
  rolled back, the paths have no token, because that version answers 404 to a path with a token.
- A configuration is written only with the resourceVersion that was read. If several replicas create
  a token at once, one of them succeeds, and the others read its token.
- The previous token stays valid for some time, because API servers get a changed configuration with
  a delay. For the same time after both configurations have a token, reviews without a token still
  get a verdict.
- Reviews without a token get a verdict again before a path without a token is written, and while
  our knowledge of the configurations is not fresh.
- A leaked token is replaced at once, but at most once in LEAK_SECONDS. A token counts as leaked if
  it is used on a path that does not fit the review or does not exist, because API servers never do
  that. Tokens can leak because API servers show the URL in the errors of failed calls, even to
  tenants.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from app.admission.decide import Route
from app.admission.exchange import Exchange
from app.admission.review import parse
from app.base.sample import Part, Sample, gauge
from app.certificates.ca_bundles import CONFIGURATIONS
from app.config.schema import Certificates
from app.kube.api import Client, Key, Object, ObjectRef, Selection
from app.kube.competing_writers import Rewrites, remedy_for_writers, write_key
from app.kube.loop import Loop, Observe
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.objects.resource import POD, Resource
from app.objects.shape import annotations_of, map_at
from app.objects.time import seconds_since_1970
from app.objects.tokens import new_token, seconds_left
from app.webhooks.configurations import APP_LABEL, NAME
from app.webhooks.paths import (
    PATHS,
    TAKES_TOKENS,
    TOKEN_AFTER,
    are_ours,
    carry_tokens,
    tokens_in,
    with_token,
)

REPLACED_SECONDS = 60.0
"""The seconds for which a token stays valid after it was replaced."""

BARE_SECONDS = 0.5
"""The seconds for which paths without a token are accepted before they are written.

In this time, the other replicas learn of the Pod that does not know tokens.
"""

FRESH_SECONDS = 150.0
"""The maximum time, in seconds, since the last event or bookmark of the configurations' watches.

In this time, a healthy watch gets two bookmarks. If a watch is silent for longer, API servers may
already use a token that this replica doesn't know.
"""

LEAK_SECONDS = 300.0
"""The minimum time, in seconds, between two replacements of leaked tokens."""

OUR_PODS = f"{APP_LABEL}={NAME}"

logger = logging.getLogger(__name__)


def root_route(routes: Mapping[str, Route]) -> Route:
    """Return the route of `/`, which API servers call until the server has written the paths.

    The kind in a review on this route determines the webhook that judges it.
    """
    others = tuple(routes[path] for path in PATHS.values())
    return replace(others[0], path="/", others=others, parse=parse)


def _token_after(configuration: Object) -> float:
    """Return the time in the annotation TOKEN_AFTER, in seconds since 1970, or 0 without a time.

    The token of `configuration` must have been created after this time.
    """
    return seconds_since_1970(annotations_of(configuration).get(TOKEN_AFTER)) or 0.0


def takes_tokens(pod: Object) -> bool:
    """Return whether `pod` accepts tokens in all paths, or has ended."""
    if map_at(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return True
    return annotations_of(pod).get(TAKES_TOKENS) == "all"


_NO_WRITES = (
    "webhooks leave all writes but those for deletions of PodGangs to the leader, unless"
    " server.clientCaFile is set"
)


class ReviewTokens(Part):
    """A reconciler that keeps a token in the webhook configurations and the routes of `exchange`.

    `now` returns the seconds since 1970, and `clock` returns the monotonic time in seconds.
    """

    name = "review-tokens"

    def __init__(
        self,
        client: Client,
        settings: Certificates,
        exchange: Exchange,
        observe: Observe,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._routes = exchange.routes
        self._routes["/"] = root_route(self._routes)
        exchange.needs_token = self._needs_token
        exchange.on_leak = self._replace_token
        self._now = now
        self._clock = clock
        self._configurations = {
            resource: WatchStore[Object](lambda obj: obj, clock=clock)
            for resource in CONFIGURATIONS
        }
        self._pods = WatchStore[bool](takes_tokens)
        self._rewrites = Rewrites(window=60.0, clock=clock)
        self._current: frozenset[str] = frozenset()
        self._valid: dict[str, float] = {}
        """The time, by `clock`, at which each valid token was last in a path or chosen for one."""
        self._bare_until: float | None = None
        """The time, by `clock`, until which paths without a token are accepted.

        It is None while they are accepted without a time limit.
        """
        self._leaked_at = 0.0
        """The time of the last leak that caused a replacement, in seconds since 1970, or 0."""
        self._note = "no webhook configuration has been read"
        self._loop = Loop(self, observe=observe)

    async def run(self) -> None:
        """Watch the webhook configurations and our Pods, and write tokens, until cancelled."""
        name = self._settings.webhook_configurations
        pods = Selection(POD, self._settings.namespace, labels=OUR_PODS)
        self._pods.subscribe(self._loop.add_all)

        async with asyncio.TaskGroup() as tasks:
            for resource, configurations in self._configurations.items():
                configurations.subscribe(self._configuration_changed)
                selection = Selection(resource, fields=f"metadata.name={name}")
                tasks.create_task(
                    run_store(self._client, configurations, selection), name="watch paths"
                )
            tasks.create_task(run_store(self._client, self._pods, pods), name="watch our Pods")
            tasks.create_task(self._loop.run(), name=self.name)
            await self._pods.until_synced()
            self._loop.add_all()

    def all_keys(self) -> list[Key]:
        return [("", self._settings.webhook_configurations)]

    async def reconcile(self, key: Key) -> float | None:
        """Write a valid token into the paths of the configurations that we manage.

        If one of our Pods does not know tokens, write paths without a token instead. Return the
        seconds until the next step, or None to wait for a change.
        """
        managed = self._managed()
        if not managed:
            self._accept(())
            self._note = f"{_NO_WRITES}: the paths of the webhook configurations are not managed"
            return REPLACED_SECONDS

        stored = set[str]().union(*map(tokens_in, managed.values())) - {""}
        token = self._wanted(stored, map(_token_after, managed.values()))
        if token is None:
            self._accept(stored)
            self._note = "our Pods have not been listed yet"
            return None

        self._accept({*stored, token} - {""})
        if not token and self._bare_until is not None:
            self._bare_until = None
            return BARE_SECONDS

        for resource, configuration in managed.items():
            if not await self._write(resource, configuration, token):
                name = configuration["metadata"]["name"]
                remedy = remedy_for_writers(ObjectRef(resource, name))
                self._note = (
                    f"another writer keeps changing the paths of {resource.kind} {name}. {remedy}"
                )
                return REPLACED_SECONDS
        if token and self._bare_until is None and len(managed) == len(self._configurations):
            self._bare_until = self._clock() + REPLACED_SECONDS
        return self._wait(token)

    def _managed(self) -> dict[Resource, Object]:
        """Return the stored webhook configurations whose paths we manage, by resource."""
        name = self._settings.webhook_configurations
        found = {resource: store.get("", name) for resource, store in self._configurations.items()}
        return {
            resource: configuration
            for resource, configuration in found.items()
            if configuration is not None and are_ours(configuration)
        }

    def _configuration_changed(self, *_: object) -> None:
        """Accept reviews without a token at once if an API server may send them now."""
        if not carry_tokens(self._managed().values()):
            self._bare_until = None
        self._loop.add_all()

    def _needs_token(self) -> bool:
        """Return whether it is certain that API servers now use only paths with a token."""
        if self._bare_until is None or self._clock() < self._bare_until:
            return False
        return all(
            not store.problem and (age := store.age()) is not None and age < FRESH_SECONDS
            for store in self._configurations.values()
        )

    def _replace_token(self) -> None:
        """Replace the token, because it has leaked.

        Do nothing if a token was replaced for this reason less than LEAK_SECONDS ago.
        """
        now = self._now()
        if now - self._leaked_at > LEAK_SECONDS:
            self._leaked_at = now
            logger.warning(
                "a caller that is not an API server knows the token in our webhook paths;"
                " replacing the token"
            )
            self._loop.add_all()

    def _wanted(self, stored: Iterable[str], after: Iterable[float]) -> str | None:
        """Return the token that the paths should have.

        It is the newest usable token in `stored`, or else a new token. A usable token has not
        expired, and was created after the last leak and after the times in `after` that are not in
        the future. Return "" if one of our Pods doesn't know tokens, or None if our Pods have not
        been listed yet.
        """
        if not self._pods.synced:
            return None
        if not all(self._pods.values()):
            return ""

        now = self._now()
        since = max(int(each) for each in (*after, self._leaked_at) if each <= now)
        usable = [token for token in stored if seconds_left(token, now, since) > 0]
        return max(usable, default="") or new_token(now)

    async def _write(self, resource: Resource, configuration: Object, token: str) -> bool:
        """Write the paths of a configuration if they differ, and return True.

        Write nothing and return False if another writer keeps changing them.
        """
        webhooks = with_token(configuration, token)
        if webhooks == configuration.get("webhooks"):
            return True

        name = configuration["metadata"]["name"]
        if not self._rewrites.may_write(write_key(resource.kind, {"has_token": bool(token)})):
            return False
        logger.info("writing the paths of %s %s", resource.kind, name)
        version = {"resourceVersion": configuration["metadata"]["resourceVersion"]}
        changed = await self._client.patch(
            ObjectRef(resource, name), {"metadata": version, "webhooks": webhooks}
        )
        self._configurations[resource].note(changed)
        return True

    def _wait(self, token: str) -> float | None:
        """Return the seconds until the next step, and set the note for /readyz."""
        if not token:
            self._note = f"{_NO_WRITES}: one of our Pods runs a version without tokens"
            return REPLACED_SECONDS

        self._note = "reviews of API servers have a token"
        seconds = max(1.0, seconds_left(token, self._now()))
        if len(self._valid) > 1:
            return min(seconds, REPLACED_SECONDS)
        return seconds

    def _accept(self, tokens: Collection[str]) -> None:
        """Make the paths with `tokens` valid. Recently replaced tokens stay valid for a while."""
        at = self._clock()
        self._valid |= dict.fromkeys((*self._current, *tokens), at)
        self._current = frozenset(tokens)
        self._valid = {
            token: since for token, since in self._valid.items() if at - since < REPLACED_SECONDS
        }
        trusted = {
            f"/{token}{path}": replace(self._routes[path], trusted=True)
            for token in self._valid
            for path in PATHS.values()
        }
        for path in [path for path, route in self._routes.items() if route.trusted]:
            if path not in trusted:
                del self._routes[path]

        self._routes.update(trusted)

    # What the server reports.

    @property
    def trusts(self) -> bool:
        """Whether there is a valid token, so that reviews of API servers may cause writes."""
        return bool(self._valid)

    def notes(self) -> dict[str, str]:
        others = "; other reviews are refused" if self._needs_token() else ""
        return {"callers": f"{self._note}{others}"}

    def samples(self) -> Iterator[Sample]:
        text = (
            "1 if the server has a valid token for webhook paths, so that reviews from API servers"
            " may cause writes."
        )
        yield gauge("review_tokens", text, self.trusts)
