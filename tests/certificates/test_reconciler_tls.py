"""Two replicas and their clients over TLS: connections that are kept, and new ones at every moment
of two rotations.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from app.certificates.reconciler import CertificateReconciler
from tests.certificates.rotation import DAY, LEAF_RENEWAL, NAME, WANTED, Cluster, running, settle

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME: years pass in this test, and OpenSSL's clock stays."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def listening(replica: CertificateReconciler) -> AsyncIterator[int]:
    """A TLS echo that shows what `replica` has loaded; its port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while byte := await reader.read(1):
            writer.write(byte)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=replica.certificate.context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def connect(port: int, bundle: str) -> Connection:
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VerifyFlags(NO_CHECK_TIME)
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)


async def exchange(connection: Connection) -> None:
    reader, writer = connection
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"


async def close(connection: Connection) -> None:
    connection[1].close()
    await connection[1].wait_closed()


@pytest.mark.untraced
async def test_kept_and_new_connections_survive_two_rotations_of_ca_and_leaf() -> None:
    cluster = Cluster()
    replicas = await running(cluster, 2)
    (published,) = cluster.bundles()
    leaves = {cluster.holdings().leaf.cert_pem}
    cas = {cluster.holdings().ca.cert_pem}
    async with listening(replicas[0]) as first, listening(replicas[1]) as second:
        kept = [await connect(port, published) for port in (first, second)]
        while len(cas) < 3 or cluster.holdings().issuer() != cluster.holdings().ca.cert_pem:
            before = cluster.bundles()
            replicas.reverse()
            for replica in replicas:
                await settle(replica)
                for bundle in before | cluster.bundles():  # a client may be late
                    for port in (first, second):
                        new = await connect(port, bundle)
                        await exchange(new)
                        await close(new)
            for connection in kept:
                await exchange(connection)
            holdings = cluster.holdings()
            leaves.add(holdings.leaf.cert_pem)
            cas.add(holdings.ca.cert_pem)
            waiting = holdings.issuer() != holdings.ca.cert_pem
            cluster.clock.pass_by(
                timedelta(seconds=WANTED.settle_seconds / 2) if waiting else LEAF_RENEWAL / 4
            )
        for connection in kept:
            await close(connection)
    assert (len(cas), len(leaves)) == (3, 11)


async def test_a_client_that_trusts_only_the_ca_of_years_ago_is_refused() -> None:
    """What is checked above can fail."""
    cluster = Cluster()
    (replica,) = await running(cluster)
    (published,) = cluster.bundles()
    cluster.clock.pass_by(400 * DAY)
    await settle(replica)
    async with listening(replica) as port:
        with pytest.raises(
            ssl.SSLCertVerificationError, match="unable to get local issuer certificate"
        ):
            await connect(port, published)
