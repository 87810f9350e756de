"""TLS 1.3 records that no TLS library sends on its own, such as KeyUpdate after KeyUpdate.

The client shakes hands with Python's ssl, and its secret comes from the key log. Records, secrets
and KeyUpdate: https://www.rfc-editor.org/rfc/rfc8446, sections 4.6.3, 5.2, 7.1 to 7.3.
"""

import asyncio
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

APPLICATION_DATA = 0x17
HANDSHAKE = 0x16
KEY_UPDATE = b"\x18\x00\x00\x01\x00"
"""The message KeyUpdate, which asks for no KeyUpdate of the server."""

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Records:
    """Encrypts what a client sends after its handshake, with the cipher AES-GCM."""

    def __init__(self, secret: bytes) -> None:
        self._hash = hashes.SHA384() if len(secret) == 48 else hashes.SHA256()
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self._secret = secret
        size = 32 if len(secret) == 48 else 16
        self._key = AESGCM(self._expanded(b"key", size))
        self._nonce = int.from_bytes(self._expanded(b"iv", 12))
        self._number = 0

    def _expanded(self, label: bytes, size: int) -> bytes:
        name = b"tls13 " + label
        info = struct.pack(">HB", size, len(name)) + name + b"\x00"
        return HKDFExpand(self._hash, size, info).derive(self._secret)

    def encrypt(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """Return one record."""
        inner = content + bytes([kind])
        head = struct.pack(">BHH", APPLICATION_DATA, 0x0303, len(inner) + 16)
        nonce = (self._nonce ^ self._number).to_bytes(12)
        self._number += 1
        return head + self._key.encrypt(nonce, inner, head)

    def decrypt(self, received: bytes) -> bytes:
        """Return the data in records that were encrypted with the same secret."""
        data = b""
        while received:
            end = 5 + int.from_bytes(received[3:5])
            nonce = (self._nonce ^ self._number).to_bytes(12)
            self._number += 1
            inner = self._key.decrypt(nonce, received[5:end], received[:5])
            data += inner[:-1] if inner[-1] == APPLICATION_DATA else b""
            received = received[end:]
        return data

    def update_keys(self) -> bytes:
        """Return a record with KeyUpdate. Later records have the next keys."""
        record = self.encrypt(KEY_UPDATE, HANDSHAKE)
        self._begin(self._expanded(b"traffic upd", len(self._secret)))
        return record


async def open_records(
    port: int, context: ssl.SSLContext, log: Path
) -> tuple[Opened, Records, Records]:
    """Connect, and shake hands. Return the records of the client and of the server.

    `log` is the path of a key log, which is written. What is written to the connection is sent as
    it is.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(log)
    incoming = ssl.MemoryBIO()
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    is_done = False
    while not is_done:
        try:
            tls.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        writer.write(outgoing.read())
        if not is_done:
            incoming.write(await reader.read(65536))

    text = log.read_text()  # noqa: ASYNC240 - a few lines
    lines = [line.split() for line in text.splitlines() if line[0] != "#"]
    secrets = {words[0]: bytes.fromhex(words[2]) for words in lines}
    ours = Records(secrets["CLIENT_TRAFFIC_SECRET_0"])
    return (reader, writer), ours, Records(secrets["SERVER_TRAFFIC_SECRET_0"])
