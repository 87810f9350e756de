"""Speak TLS on an accepted connection, between its socket and the protocol that reads requests.

The TLS of asyncio and uvloop does not report a connection before its handshake is complete, takes
50 KiB for a silent client, and reads any number of messages without data, such as KeyUpdates. With
this transport, unfinished handshakes can be counted and closed, a silent client takes 2 KiB, and
a connection with much ciphertext and little data is closed. A verdict takes as much processor time
as with uvloop (`./scripts/bench verdicts`).
"""

import asyncio
import contextlib
import enum
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from app.server.handshakes import Handshakes

_RECORD = 16 * 1024
"""The maximum number of plaintext bytes in one TLS record."""

READ_BYTES = 2 * _RECORD
"""The maximum number of bytes that are read from a connection at once.

uvloop reads that much up to 32 times in one turn of the event loop, unless reading is paused. With
its own buffer of 256 KiB, it would read 8 MiB: while 100 clients sent 500 requests each, another
client waited for 3 s.
"""

_FRUITLESS = 2 * _RECORD
"""The maximum number of bytes of ciphertext without enough plaintext (_ENOUGH).

Messages such as KeyUpdate have no plaintext. One connection that sent 48,000 KeyUpdates in a second
stopped a server.
"""

_SHAKING_HANDS = 128 * 1024
"""The maximum size of a handshake, in bytes. A chain of certificates takes a few thousand."""

_ENOUGH = 0.8
"""The share of plaintext in the ciphertext below which ciphertext counts as fruitless.

A record has an overhead of 22 bytes. It takes a microsecond even if it contains a single byte, and
a KeyUpdate takes ten microseconds.
"""

_LENGTHS = 9
"""The number of bytes up to the end of the lengths of the first record and of the ClientHello."""

_LONGEST_HELLO = _RECORD + 1024
"""The maximum number of bytes before the ClientHello is answered.

A client sends nothing after the ClientHello until it is answered.
"""


class State(enum.Enum):
    """The state of a connection."""

    HELLO = "waits for the ClientHello, or for the time to answer it"
    HANDSHAKE = "has answered the ClientHello"
    OPEN = "passes decrypted data to the application protocol"
    CLOSING = "drops all received data, and waits until the client closes the connection"


_HELLO, _SHAKING, _OPEN, _CLOSING = State


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The protocol of an accepted connection, and the transport of its application protocol.

    Once the handshake is complete, `make` returns the application protocol. `seconds` is
    the time limit for the handshake, and for closing TLS. `buffer` is for received bytes.
    Connections can share a buffer, because it is empty between two calls.
    """

    # slots are read faster than a dict, as in `Connection`
    __slots__ = (
        "__weakref__",
        "_above",
        "_buffer",
        "_context",
        "_fruitless",
        "_handshakes",
        "_hello",
        "_incoming",
        "_is_paused",
        "_loop",
        "_make",
        "_outgoing",
        "_raw",
        "_seconds",
        "_state",
        "_timer",
        "_tls",
    )

    _raw: asyncio.Transport
    _timer: asyncio.TimerHandle

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        handshakes: Handshakes,
        seconds: float,
        buffer: memoryview,
    ) -> None:
        self._context = context
        self._make = make
        self._handshakes = handshakes
        self._seconds = seconds
        self._buffer = buffer
        self._loop = asyncio.get_running_loop()
        self._state = State.HELLO
        self._tls: ssl.SSLObject | None = None
        self._above: asyncio.Protocol | None = None
        """The application protocol, or None before the handshake is complete and after the end."""
        self._hello = b""
        """The received bytes of the ClientHello."""
        self._is_paused = False
        """Whether the application protocol has paused reading."""
        self._fruitless: float = _FRUITLESS - _SHAKING_HANDS
        """The bytes of ciphertext without enough plaintext.

        The number starts below zero, because a handshake may have _SHAKING_HANDS such bytes.
        """

    # methods that the socket calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport  # type: ignore[assignment]
        self._timer = self._loop.call_later(self._seconds, self.abort)
        self._handshakes.accepted(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.CLOSING
        self._timer.cancel()
        self._handshakes.closed(self)
        if self._above is not None:
            self._above.connection_lost(exc)
            self._above = None  # it refers to this transport: the cycle would stay in memory

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._buffer[:nbytes]
        if self._state is _CLOSING:
            return  # data is dropped, because a reset could keep our answer from the client
        if self._tls is not None and self._state is not _HELLO:
            self._decrypt(self._tls, data)
        else:
            self._hello += data
            self._say_hello()

    def eof_received(self) -> bool:
        """End TLS, and return False, so that the socket is closed after all writes."""
        self.close()
        return False

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    # the method that `Handshakes` calls

    def shake_hands(self) -> None:
        """Answer the ClientHello, or wait for the rest of it."""
        if self._state is not _HELLO:
            return
        if self._tls is None:
            self._incoming = ssl.MemoryBIO()
            self._outgoing = ssl.MemoryBIO()
            self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        hello, self._hello = self._hello, b""
        self._decrypt(self._tls, hello)

    # methods that the application protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._state is _OPEN and self._tls is not None and data:
            self._tls.write(data)  # writes all data, because a MemoryBIO has no size limit
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Flush all writes, end TLS, and wait up to `seconds` for the client to close the socket.

        Do nothing before the handshake is complete, or if the connection is closing already.

        If the socket were closed while the client is still sending, the connection would be reset,
        and the client would lose answers that it hasn't read.
        """
        if self._state is not _OPEN or self._tls is None:
            return

        self._state = State.CLOSING
        self._timer = self._loop.call_later(self._seconds, self.abort)
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._send()
        # frees 40 KiB, which are not needed while we wait for the client
        self._tls = None
        del self._incoming, self._outgoing
        self.resume_reading()

    def abort(self) -> None:
        """Close the socket at once, and drop all data that was not sent."""
        self._state = State.CLOSING
        self._hello = b""  # at once, because connection_lost comes only in the next turn
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._state is State.CLOSING

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            shown = self._tls.getpeercert() if self._tls is not None else None
            return shown if shown and not _has_expired(shown) else default
        if name == "sslcontext":
            return self._context
        return self._raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = protocol  # type: ignore[assignment]

    def pause_reading(self) -> None:
        if not self._is_paused and not self._raw.is_closing():
            self._is_paused = True
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self._raw.is_closing():
            self._is_paused = False
            self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def _say_hello(self) -> None:
        """Ask for a turn to answer the ClientHello, once its lengths are known.

        Abort the connection if a length is out of bounds.
        """
        if self._tls is None and _is_too_long(self._hello):
            self.abort()
        elif self._tls is not None or len(self._hello) >= _LENGTHS:
            self._handshakes.said_hello(self)

    def _decrypt(self, tls: ssl.SSLObject, data: bytes | memoryview) -> None:
        """Continue the handshake with `data`, or decrypt it.

        Pass all plaintext to the application protocol in one piece, even if its records are small.
        Close the connection if the client ends TLS or sends invalid or too much ciphertext.
        """
        pieces: list[bytes] = []
        is_failing = False
        self._incoming.write(data)
        fruitless = self._fruitless + len(data)
        try:
            if self._state is not _OPEN:
                tls.do_handshake()
                self._open()
                fruitless = self._incoming.pending
            while True:
                piece = tls.read(_RECORD)
                pieces.append(piece)
                fruitless -= len(piece) / _ENOUGH
                # a read without data raises an error, which takes 4 us
                if not piece or (len(piece) < _RECORD and not self._incoming.pending):
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_failing = True  # handled only after the plaintext before it was passed on

        if self._outgoing.pending:
            self._send()  # a part of the handshake, an answer to a KeyUpdate, or the alert
        self._fruitless = fruitless if fruitless > 0 or self._state is not _OPEN else 0
        plaintext = b"".join(pieces)
        if plaintext and self._above is not None and self._state is _OPEN:
            self._above.data_received(plaintext)
        if is_failing or (pieces and not pieces[-1]):
            self.close()
            self._state = State.CLOSING
            self._raw.close()
        elif fruitless > _FRUITLESS:
            self.abort()

    def _open(self) -> None:
        """Create the application protocol, because the handshake is complete."""
        self._send()
        self._timer.cancel()
        self._state = State.OPEN
        self._above = self._make()
        self._handshakes.completed(self)
        self._above.connection_made(self)

    def _send(self) -> None:
        """Write the ciphertext that TLS has produced to the socket."""
        if self._tls is not None and self._outgoing.pending:
            self._raw.write(self._outgoing.read())
            if self._state is _HELLO:
                self._state = State.HANDSHAKE


def _is_too_long(first: bytes) -> bool:
    """Return whether a connection begins with a ClientHello that is, or will be, too long.

    OpenSSL allocates memory for the announced length of a ClientHello at once, up to 175 KB. A
    first record that is too short to contain the length is rejected too.
    """
    if len(first) > _LONGEST_HELLO:
        return True
    is_hello = len(first) >= _LENGTHS and first[0] == 0x16
    return is_hello and (
        int.from_bytes(first[3:5]) < 4 or int.from_bytes(first[6:_LENGTHS]) > _RECORD
    )


def _has_expired(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate that a client has presented has expired since.

    A client that resumes a session does not present its certificate again.
    """
    return ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time()
