"""TLS on an accepted connection, between its socket and the protocol that reads requests.

The TLS of asyncio and uvloop does not report a connection before its handshake is complete, takes
50 KiB for a silent client, and closes a connection as soon as its client half-closes it, even if
the answer is not written yet. With this transport, unfinished handshakes can be counted and closed,
a silent client takes 2 KiB, and a client that half-closes gets its answer. A verdict takes as much
processor time as with uvloop (`./scripts/bench verdicts`).
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

_RECORD = 16 * 1024
"""The most bytes that one TLS record contains."""

_TURN = _RECORD
"""The most bytes of ciphertext of a connection that are decrypted in one turn of the event loop.

uvloop reads up to 8 MiB of one connection at once: while 100 clients sent 500 requests each,
another one waited for 3 s. Ciphertext is counted instead of plaintext, because messages such as
KeyUpdate have none: one connection that sent 48,000 of them in a second stopped a server.
"""

_FRUITLESS = 2 * _RECORD
"""The most bytes of ciphertext without enough plaintext. A record of data is shorter."""

_LENGTHS = 9
"""The number of first bytes that have the lengths of the first record and of the ClientHello."""

_LONGEST_HELLO = _RECORD + 1024
"""The most bytes before the ClientHello is answered. A client sends nothing after it until then."""

_SHAKING_HANDS = 128 * 1024
"""The most bytes of a handshake. A chain of certificates takes a few thousand."""

_ENOUGH = 0.8
"""The least share of plaintext in the ciphertext, over the whole connection.

A record has an overhead of 22 bytes. It takes a microsecond even if it contains a single byte, and
a KeyUpdate takes ten.
"""


class Door(Protocol):
    """The observer of a listener's connections until the end of their handshakes."""

    def came(self, transport: "TlsTransport") -> None:
        """Handle an accepted connection. Its client has sent nothing yet."""

    def asked(self, transport: "TlsTransport") -> None:
        """Handle a ClientHello: call `transport.shake_hands` as soon as there is time."""

    def began(self, transport: "TlsTransport") -> None:
        """Handle the beginning of TLS, which takes memory from now on."""

    def entered(self, transport: "TlsTransport") -> None:
        """Handle a complete handshake."""

    def left(self, transport: "TlsTransport") -> None:
        """Handle a closed connection."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of an accepted connection, and the transport of the protocol above it.

    `make` returns the protocol above, once the handshake is complete. `seconds` is the time limit
    of the handshake, and of the end of TLS.
    """

    # slots are read faster than a dict, as in `Connection`
    __slots__ = (
        "__weakref__",
        "_above",
        "_context",
        "_door",
        "_fruitless",
        "_has_answered",
        "_has_ended",
        "_incoming",
        "_is_closing",
        "_is_next_turn",
        "_is_open",
        "_is_paused",
        "_loop",
        "_make",
        "_outgoing",
        "_raw",
        "_seconds",
        "_timer",
        "_tls",
        "_undecrypted",
    )

    _raw: asyncio.Transport
    _above: asyncio.Protocol

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        door: Door,
        seconds: float,
    ) -> None:
        self._context = context
        self._make = make
        self._door = door
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._tls: ssl.SSLObject | None = None
        self._is_open = False
        self._is_closing = False
        self._is_paused = False
        self._is_next_turn = False
        self._has_answered = False
        """Whether the ClientHello was answered, which is the costly part of a handshake."""
        self._has_ended = False
        self._undecrypted: memoryview | bytes = b""
        self._fruitless: float = _FRUITLESS - _SHAKING_HANDS
        """The bytes of ciphertext without enough plaintext.

        It starts below zero, because a handshake may have more of them.
        """
        self._timer: asyncio.TimerHandle | None = None

    # what the socket calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport  # type: ignore[assignment]
        self._timer = self._loop.call_later(self._seconds, self.abort)
        self._door.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._stop_timer()
        self._door.left(self)
        if self._is_open:
            self._is_open = False
            self._above.connection_lost(exc)
            del self._above  # it refers to this transport: the cycle would stay in memory

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return  # read and dropped, so that the client isn't reset before it has our answer
        if self._undecrypted:
            data = b"".join((self._undecrypted, data))
        if self._tls is not None and self._has_answered:
            self._go_on(self._tls, data)
            return

        self._undecrypted = data
        if len(data) >= _LENGTHS:
            if _is_too_long(data):
                self.abort()
            else:
                self._door.asked(self)

    def shake_hands(self) -> None:
        """Read the ClientHello, and answer it if it is complete."""
        if self._is_closing:
            return
        if self._tls is None:
            self._incoming = ssl.MemoryBIO()
            self._outgoing = ssl.MemoryBIO()
            self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._door.began(self)
        self._go_on(self._tls, self._undecrypted)

    def eof_received(self) -> bool:
        """Return whether the socket must stay open, because there is an answer to write."""
        if self._is_open and not self._has_ended:
            self._end()
        return self._is_open and not self._is_closing

    def pause_writing(self) -> None:
        if self._is_open:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self._above.resume_writing()

    # what the protocol above calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._tls is not None and not self._is_closing and data:
            self._tls.write(data)  # all of it, because the buffer behind has no limit
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Flush all writes, end TLS, and wait until the client closes the connection.

        If the socket was closed while the client is still sending, the client would be reset, and
        lose answers that it hasn't read.
        """
        if self._is_closing or self._tls is None:
            return

        self._is_closing = True
        self._undecrypted = b""
        self._timer = self._loop.call_later(self._seconds, self.abort)
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._send()
        # free 40 KiB, which are not needed while we wait for the client
        self._tls = None
        del self._incoming, self._outgoing

        if self._has_ended:
            self._raw.close()
        elif self._is_paused:
            self.resume_reading()

    def abort(self) -> None:
        self._is_closing = True
        self._undecrypted = b""  # at once, because connection_lost comes only in the next turn
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            shown = self._tls.getpeercert() if self._tls is not None else None
            return shown if shown and not _has_expired(shown) else default
        if name == "undecrypted":
            return len(self._undecrypted)
        if name == "sslcontext":
            return self._context
        return self._raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = protocol  # type: ignore[assignment]

    def pause_reading(self) -> None:
        """Stop receiving. Bytes that have arrived are still passed on, so that they are counted."""
        self._is_paused = True
        if not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if not self._is_next_turn and not self._raw.is_closing():
            self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    # the two states

    def _go_on(self, tls: ssl.SSLObject, data: bytes | memoryview) -> None:
        """Decrypt as much of `data` as belongs to one turn. The rest waits for the next one.

        For a connection of an API server, decrypt everything. Otherwise, each piece of its review
        would wait for a turn of all other connections.
        """
        if len(data) > _TURN and not (self._is_open and getattr(self._above, "is_caller", False)):
            whole = memoryview(data)
            data = whole[:_TURN]
            self._undecrypted = whole[_TURN:]
        else:
            self._undecrypted = b""
        self._incoming.write(data)
        try:
            if self._is_open:
                self._read(tls, len(data))
            else:
                self._continue_handshake(tls, len(data))
        except ssl.SSLError:
            self._send()  # the alert with the reason
            self._is_closing = True
            self._raw.close()
            return

        if self._fruitless > _FRUITLESS:
            self.abort()
        elif self._undecrypted:
            self._wait_for_turn()

    def _continue_handshake(self, tls: ssl.SSLObject, size: int) -> None:
        self._fruitless += size
        if self._is_closing:
            return
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return

        self._send()
        self._stop_timer()
        self._is_open = True
        self._fruitless = 0
        self._above = self._make()
        self._door.entered(self)
        self._above.connection_made(self)
        self._read(tls, 0)

    def _read(self, tls: ssl.SSLObject, size: int) -> None:
        """Pass on the plaintext of this turn in one piece, even if its records are small.

        `size` is the number of bytes of ciphertext.
        """
        pieces: list[bytes] = []
        failure = None
        try:
            self._decrypt(tls, pieces)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as problem:
            failure = problem  # raised only after the plaintext before it was passed on

        if self._outgoing.pending:
            self._send()
        plaintext = b"".join(pieces)
        fruitless = self._fruitless + size - len(plaintext) / _ENOUGH
        self._fruitless = fruitless if fruitless > 0 else 0
        if plaintext and not self._is_closing:
            self._above.data_received(plaintext)
        if failure is not None:
            raise failure
        if pieces and not pieces[-1]:
            self._end()

    def _decrypt(self, tls: ssl.SSLObject, pieces: list[bytes]) -> None:
        """Append the plaintext of this turn to `pieces`. An empty piece is the end of TLS."""
        while True:
            data = tls.read(_RECORD)
            pieces.append(data)
            # a read without data raises an error, which takes 4 us
            if not data or (len(data) < _RECORD and not self._incoming.pending):
                return

    def _wait_for_turn(self) -> None:
        """Let other connections be read before the rest of this one."""
        if not self._is_next_turn:
            self._is_next_turn = True
            if not self._raw.is_closing():
                self._raw.pause_reading()
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_next_turn = False
        if self._raw.is_closing():
            return
        if not self._is_paused:
            self._raw.resume_reading()  # after `close` too, which waits for the client
        if self._tls is not None and not self._is_closing:
            self._go_on(self._tls, self._undecrypted)

    def _end(self) -> None:
        """Handle the end of the client's data."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._is_closing:
            self._raw.close()
        elif not self._above.eof_received():
            self.close()

    def _send(self) -> None:
        if self._tls is None:
            return
        data = self._outgoing.read()
        if data:
            self._has_answered = True
            self._raw.write(data)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_too_long(first: bytes) -> bool:
    """Return whether a connection begins with more than a record, or announces a longer hello.

    OpenSSL allocates memory for the announced length of a ClientHello at once, up to 175 KB. The
    first record must not be so short that the length comes later.
    """
    if len(first) > _LONGEST_HELLO:
        return True
    is_hello = first[0] == 0x16
    return is_hello and (
        int.from_bytes(first[3:5]) < 4 or int.from_bytes(first[6:_LENGTHS]) > _RECORD
    )


def _has_expired(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate has expired since the client presented it.

    A client that resumes a session does not present it again.
    """
    return ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time()
