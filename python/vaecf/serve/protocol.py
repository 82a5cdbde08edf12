"""Limits of connections that uvicorn does not have."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = 1 << 16
"""The largest number of bytes of a request line and headers."""

SECONDS = 30
"""The time for a whole request to arrive, and that after which a connection without one is closed."""


class Protocol(HttpToolsProtocol):
    """The protocol of a connection. A request that is too slow, or whose headers are too long, ends it."""

    body_bytes = 1 << 20
    """The largest body; chunks of one byte take six times as many."""

    _deadline: asyncio.TimerHandle | None = None
    _received = 0  # bytes of the current request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expects a first request."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(SECONDS, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expects nothing more."""
        self._end_request()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Expects the rest of a request."""
        super().on_message_begin()
        self._end_request()
        self._deadline = self.loop.call_later(SECONDS, self.timeout_keep_alive_handler)
        self._largest = HEAD

    def on_headers_complete(self) -> None:
        """Expects a body."""
        super().on_headers_complete()
        self._largest = HEAD + 8 * self.body_bytes

    def on_message_complete(self) -> None:
        """Leaves the time that the answer takes unlimited."""
        super().on_message_complete()
        self._end_request()

    def _end_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._received = 0

    def data_received(self, data: bytes) -> None:
        """Parses what has arrived."""
        super().data_received(data)
        if self._deadline is None or self.transport.is_closing():
            return
        self._received += len(data)
        if self._received > self._largest:
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                self.send_400_response("The request is too long.")
            self.transport.close()
