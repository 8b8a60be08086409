"""A deadline for each request and each answer of a connection, in uvicorn's HTTP protocol.

On the open internet a reverse proxy stands in front of the collector and does the rest: TLS, limits for headers and for
connections of one client, slow clients (docs/operate/nginx.conf is tested). These parts stay here, because a proxy does
not do them or a collector without a proxy needs them:

- a deadline for a whole request. A proxy limits the time between two reads, so a body of one byte a second never ends
  there. Without a proxy (on an internal network, in tests) uvicorn would wait without end;
- a deadline for clients that do not read their answer;
- a limit for the size of a request's head. uvicorn's parser has none, and it would keep any number of trailers;
- refusals as problem documents, which clients of the collector can read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from taskveil.client.wire import PROBLEM
from taskveil.collector.problems import ProblemType
from taskveil.collector.settings import Settings

MAX_HEAD_BYTES = 2**16
"""Size of a request's first line and headers that may arrive before they are complete."""


class CollectorConfig(Config):
    """uvicorn's configuration with the collector's settings."""

    def __init__(self, app: Any, settings: Settings, **options: Any) -> None:
        super().__init__(app, http=Connection, **options)
        self.settings = settings


class Connection(HttpToolsProtocol):
    """One client's connection."""

    config: CollectorConfig
    _arrival: asyncio.TimerHandle | None = None
    """Runs from the opening of the connection, or from a request's first byte, to the request's last byte."""
    _departure: asyncio.TimerHandle | None = None
    """Runs while the client does not read."""
    _head_bytes: int | None = None
    """Bytes of a head that has not arrived completely; None between heads."""
    _one_too_many = False
    _unanswered: tuple[RequestResponseCycle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._one_too_many = len(self.connections) > self.config.settings.most_connections
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Start a deadline at the first byte after an answer, whatever it is."""
        if self.transport.is_closing():
            return
        if self._one_too_many:
            self._refuse(ProblemType.BUSY, "There are too many connections. Try again later.")
            return
        if self._arrival is None and (self.cycle is None or self.cycle.response_complete):
            self._await_request()
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(ProblemType.BAD_REQUEST, f"Its head has more than {MAX_HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        """Start to count the bytes of a request's head, and its deadline."""
        super().on_message_begin()
        self._head_bytes = 0
        if self._arrival is None:
            self._await_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, and drop trailers: they come after the body and are not limited in number."""
        if self._head_bytes is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to answer: the head is complete."""
        self._head_bytes = None
        super().on_headers_complete()
        self._unanswered = (*(one for one in self._unanswered if not one.response_complete), self.cycle)

    def on_message_complete(self) -> None:
        """Stop the deadline: the request is complete."""
        super().on_message_complete()
        self._arrival = _cancelled(self._arrival)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's text
        """Refuse what is not HTTP with a problem document."""
        self._refuse(ProblemType.BAD_REQUEST, "This is not an HTTP request.")

    def pause_writing(self) -> None:
        """Start a deadline: the client does not read its answer."""
        super().pause_writing()
        self._abort_after(self.config.settings.request_seconds)

    def resume_writing(self) -> None:
        """Stop that deadline: the client reads again."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._departure = _cancelled(self._departure)

    def on_response_complete(self) -> None:
        """Limit the time to close, after an answer was written."""
        super().on_response_complete()
        self._limit_closing()

    def timeout_keep_alive_handler(self) -> None:
        """Close: no further request came."""
        super().timeout_keep_alive_handler()
        self._limit_closing()

    def shutdown(self) -> None:
        """Close, because the collector stops."""
        super().shutdown()
        self._limit_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all requests of the closed connection. By itself uvicorn would stop only the last one."""
        self._arrival, self._departure = _cancelled(self._arrival), _cancelled(self._departure)
        for cycle in self._unanswered:
            cycle.disconnected = True
        self.pipeline.clear()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._arrival = self.loop.call_later(self.config.settings.request_seconds, self._too_slow)

    def _too_slow(self) -> None:
        if self.pipeline:  # it waits for the answer to an earlier request
            self._await_request()
        else:
            seconds = self.config.settings.request_seconds
            self._refuse(ProblemType.TOO_SLOW, f"A request must arrive within {seconds:g} seconds.")

    def _refuse(self, problem: ProblemType, detail: str) -> None:
        """Answer with this problem, if no answer has started, and close the connection."""
        self._arrival = _cancelled(self._arrival)
        answered = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not (answered or self.pipeline or self.transport.is_closing()):
            document = problem.document(detail)
            content = document.to_json()
            head = [
                b"content-type: " + PROBLEM.encode(),
                b"content-length: %d" % len(content),
                b"cache-control: no-store",
                b"connection: close",
                *([b"retry-after: 1"] if document.status == 503 else []),
            ]
            self.transport.write(STATUS_LINE[document.status] + b"\r\n".join(head) + b"\r\n\r\n" + content)
        self.transport.close()
        self._abort_after(self.config.settings.idle_seconds)

    def _limit_closing(self) -> None:
        """A connection closes when the client has read everything: not without end."""
        if self.transport.is_closing():
            self._abort_after(self.config.settings.request_seconds)

    def _abort_after(self, seconds: float) -> None:
        _cancelled(self._departure)
        self._departure = self.loop.call_later(seconds, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """None, after the timer was cancelled."""
    if timer is not None:
        timer.cancel()
    return None
