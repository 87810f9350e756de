"""When the TLS context of an API server is made, renewed or kept, in virtual time."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.kube.api import Unavailable
from app.kube.tls_context import ServerTrust
from tests.kube import virtual


class Files:
    """Credentials with one file, whose content decides about the context."""

    host = "https://a.example.com"
    proxy = None
    server_hostname = None
    impersonation = ()

    def __init__(self, path: Path, *, tls: bool = True) -> None:
        self.path = path
        self.renewed = 0
        self.made: list[ssl.SSLContext] = []
        self.unavailable = False
        self._tls = tls

    def ssl_context(self) -> ssl.SSLContext | None:
        if self.path.read_text() == "bad":
            raise ValueError("no certificate")
        if not self._tls:
            return None
        self.made.append(ssl.create_default_context())
        return self.made[-1]

    def files(self) -> Sequence[str]:
        return (str(self.path),)

    async def authorization(self) -> str | None:
        return None

    async def renew(self) -> None:
        self.renewed += 1
        if self.unavailable:
            raise Unavailable("credentials: being written")


@pytest.fixture
def credentials(tmp_path: Path) -> Files:
    path = tmp_path / "ca"
    path.write_text("one")
    return Files(path)


def test_files_are_looked_at_once_in_a_while_and_read_again_if_they_differ(
    credentials: Files,
) -> None:
    async def main() -> list[tuple[int, int]]:
        trust = ServerTrust(credentials, 10.0)
        seen = []
        for content, wait in (("one", 0), ("two", 9), ("two", 1), ("two", 30), ("two", 30)):
            await asyncio.sleep(wait)
            credentials.path.write_text(content)
            context = await trust.context()
            assert context is credentials.made[-1]
            seen.append((len(credentials.made), credentials.renewed))
        return seen

    assert virtual.run(main()) == [(1, 0), (1, 0), (2, 1), (2, 1), (2, 1)]


def test_unusable_files_never_replace_a_context(credentials: Files) -> None:
    async def main() -> None:
        trust = ServerTrust(credentials, 10.0)
        first = await trust.context()
        credentials.path.write_text("bad")
        await asyncio.sleep(10)
        assert await trust.context() is first
        credentials.unavailable = True
        credentials.path.unlink()
        credentials.path.write_text("two")
        await asyncio.sleep(10)
        assert await trust.context() is credentials.made[1]
        assert await trust.context() is credentials.made[1]

    virtual.run(main())


def test_without_a_context_unusable_files_are_an_error(credentials: Files) -> None:
    async def main() -> None:
        credentials.path.write_text("bad")
        trust = ServerTrust(credentials, 10.0)
        with pytest.raises(Unavailable) as raised:
            await trust.context()
        assert (raised.value.message, raised.value.reason) == (
            "cannot load the CA or the client certificate for the API server: no certificate",
            "TLS",
        )
        credentials.path.write_text("good")
        assert await trust.context() is credentials.made[0]

    virtual.run(main())


def test_credentials_without_tls_need_no_context(credentials: Files) -> None:
    async def main() -> bool | ssl.SSLContext:
        return await ServerTrust(Files(credentials.path, tls=False), 10.0).context()

    assert virtual.run(main()) is True


def test_after_a_failed_handshake_credentials_are_renewed_once_unless_files_change(
    credentials: Files,
) -> None:
    async def main() -> list[tuple[bool, int, int]]:
        trust = ServerTrust(credentials, 10.0)
        await trust.context()
        seen = []
        for content, wait in (("one", 0), ("one", 9), ("two", 0), ("two", 0), ("two", 10)):
            await asyncio.sleep(wait)
            credentials.path.write_text(content)
            again = await trust.renew_after_failure()
            await trust.context()
            seen.append((again, credentials.renewed, len(credentials.made)))
        return seen

    assert virtual.run(main()) == [
        (True, 1, 2),
        (False, 1, 3),
        (True, 2, 4),
        (False, 2, 5),
        (True, 3, 6),
    ]


def test_rejected_credentials_are_read_again(credentials: Files) -> None:
    async def main() -> None:
        trust = ServerTrust(credentials, 10.0)
        await trust.context()
        await trust.renew()
        assert await trust.context() is credentials.made[1]
        assert credentials.renewed == 1
        credentials.unavailable = True
        with pytest.raises(Unavailable, match="being written"):
            await trust.renew()

    virtual.run(main())
