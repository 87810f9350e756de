"""A TLS handshake with a server, to verify its certificate with a CA bundle."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Handshake:
    """The result of a handshake. `refused` means that the certificate was not verified, and `unreachable` that no TLS
    server answered, each with the reason."""

    outcome: Literal["trusted", "refused", "unreachable"]
    reason: str = ""


async def handshake(host: str, port: int, name: str, ca_bundle: bytes, seconds: float) -> Handshake:
    """Connects to `host`, and verifies its certificate for `name` with the CAs in `ca_bundle` (PEM)."""
    context = ssl.create_default_context(cadata=ca_bundle.decode("ascii"))
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        return Handshake("refused", error.verify_message)
    except TimeoutError:
        return Handshake("unreachable", f"no answer within {seconds:g} s")
    except OSError as error:
        return Handshake("unreachable", error.strerror or str(error))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return Handshake("trusted")
