"""Connections that end: each request must arrive, and each answer must leave, within a time, however it trickles.

uvicorn's protocol, with deadlines around it. A connection that opens and says nothing, a head or a body of one byte a
second, and a reader who does not read all end by `Settings.request_seconds`; their memory is bounded meanwhile. When
there are too many, the one that has waited longest for its request makes room for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from taskveil.client.wire import PROBLEM
from taskveil.collector.limits import TOGETHER
from taskveil.collector.problems import Problem
from taskveil.collector.settings import Settings

MOST_HEAD = 2**16
"""Bytes of a request's line and headers."""

MOST_HEADERS = 100
"""Of a request: each takes some 200 bytes of memory, however short it is."""

MOST_QUEUED = 8
"""Requests that a connection sends before the first of them is answered."""

SOON = 1.0
"""Seconds that a connection which is refused may stay."""


class CollectorConfig(Config):
    """uvicorn's configuration with the collector's, for the connections to know."""

    def __init__(self, app: Any, settings: Settings, **options: Any) -> None:
        super().__init__(app, http=Connection, **options)
        self.settings = settings
        self.waiting: dict[Connection, None] = {}
        """Those of which no request is being answered: whose next one has not arrived. First who waits longest."""
        self.unread = 0
        """Bytes of answers that wait in memory for whoever does not read them."""


class Connection(HttpToolsProtocol):
    """One client's connection."""

    config: CollectorConfig

    def __init__(
        self,
        config: CollectorConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._seconds = config.settings.request_seconds
        self._most_bytes = config.settings.most_bytes
        self._arriving: asyncio.TimerHandle | None = None
        """Runs from a request's first byte, or the connection's opening, to the request's last byte."""
        self._leaving: asyncio.TimerHandle | None = None
        """Runs while what was written is not taken."""
        self._unread = 0
        self._answered: Any = None
        """The request that is being answered."""
        self._full = False
        self._in_head, self._head, self._body = False, 0, 0
        """Whether a head is arriving, bytes of it that the parser has understood, bytes of its body."""
        self._not_understood = 0
        """Bytes of a head that arrived whole reads ago: a header without end."""

    # What arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        if len(self.connections) > self.config.settings.most_connections:
            # Whoever says nothing, or slowly, must not keep out those who speak.
            self._full = not self.config.waiting
            if not self._full:
                next(iter(self.config.waiting))._make_room()
        self.config.waiting[self] = None
        self._arriving = self.loop.call_later(SOON if self._full else self._seconds, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Some bytes, not necessarily of a request: whatever they are, the time runs from the first."""
        if self.transport.is_closing():
            return
        if self._full:
            self._refuse(Problem.BUSY, "There are too many connections. Come again later.")
            return
        if self._arriving is None and (self.cycle is None or self.cycle.response_complete):
            self._expect()
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._not_understood += len(data)
            if self._not_understood > MOST_HEAD:
                self._refuse(Problem.BAD_REQUEST, f"Its head has more than {MOST_HEAD:,} bytes.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True
        self._head = self._body = self._not_understood = 0
        if self._arriving is None:
            self._expect()

    def on_url(self, url: bytes) -> None:
        """A part of its first line."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers. What follows a chunked body as a trailer is none: uvicorn would take a token, or a type,
        from there that nobody in front of us has seen."""
        if self._in_head:
            super().on_header(name, value)
            if len(self.headers) > MOST_HEADERS:
                raise OverflowError("too many headers")  # as below
        self._count(len(name) + len(value) + 4)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MOST_HEAD:
            raise OverflowError("a head that is too large")  # the parser stops, and it is refused

    def on_headers_complete(self) -> None:
        """Its body follows."""
        self._in_head = False
        if len(self.pipeline) >= MOST_QUEUED:  # uvicorn would queue any number of them
            raise OverflowError("too many requests on one connection")  # as above
        leaving = self.parser.should_upgrade()
        if leaving and any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            raise ValueError("a body before another protocol")  # the parser would take it for the next request
        queued = len(self.pipeline)
        super().on_headers_complete()
        if len(self.pipeline) == queued:
            self._answered = self.cycle
        if leaving:  # we do not, and what follows is in nobody's protocol
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of it. What follows after the answer (413, 401 …) is read and thrown away for a while, because a
        client that is still sending would not see the answer if the connection was closed."""
        self._body += len(body)
        if self._body > 2 * self._most_bytes and self.cycle.response_complete:
            self._end()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        super().on_message_complete()
        if not self.cycle.response_complete:
            self.config.waiting.pop(self, None)
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """What is no HTTP gets a problem document too."""
        self._refuse(Problem.BAD_REQUEST, "This is no HTTP request that can be read.")

    def _make_room(self) -> None:
        self.config.waiting.pop(self)
        if self._arriving is None:  # between two requests: nobody waits for a word
            self._end()
        else:
            self._refuse(Problem.BUSY, "There are too many connections. Come again later.")

    def _expect(self) -> None:
        self._arriving = self.loop.call_later(self._seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._arriving = None
        if self.pipeline:  # it waits for the answer to the one before, and we stopped reading
            self._expect()
        elif self._full:
            self._refuse(Problem.BUSY, "There are too many connections. Come again later.")
        else:
            self._refuse(Problem.TOO_SLOW, f"A request must arrive within {self._seconds:g} seconds.")

    def _refuse(self, problem: Problem, detail: str) -> None:
        """Answer without looking further, if nothing was answered yet, and end."""
        unanswered = self.cycle is None or self.cycle.response_complete or not self.cycle.response_started
        if unanswered and not self.pipeline and not self.transport.is_closing():
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
        self._end()

    # What leaves

    def pause_writing(self) -> None:
        """What was written is not taken: not for ever."""
        super().pause_writing()
        self._leave_within(self._seconds)
        self._count_unread(self.transport.get_write_buffer_size())
        if self.config.unread > TOGETHER * self._most_bytes:
            self.transport.abort()  # reports that are sent again are found to be there

    def resume_writing(self) -> None:
        """It was taken, or will never be."""
        if self.transport.is_closing():
            self._answer_no_more()
        super().resume_writing()
        self._count_unread(0)
        if self._leaving is not None and not self.transport.is_closing():
            self._leaving.cancel()
            self._leaving = None

    def on_response_complete(self) -> None:
        """The answer was written; if the connection closes after it, within a time."""
        if not self.pipeline:
            self.config.waiting[self] = None
        else:
            self._answered = self.pipeline[-1][0]  # the next
        super().on_response_complete()
        if self.transport.is_closing():
            self._leave_within(self._seconds)

    def timeout_keep_alive_handler(self) -> None:
        """No further request came."""
        super().timeout_keep_alive_handler()
        self._leave_within(SOON)

    def shutdown(self) -> None:
        """The collector stops: this request is the last."""
        super().shutdown()
        if self.transport.is_closing():
            self._leave_within(SOON)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self.config.waiting.pop(self, None)
        self._count_unread(0)
        for timer in (self._arriving, self._leaving):
            if timer is not None:
                timer.cancel()
        self._arriving = self._leaving = None
        self._answer_no_more()
        super().connection_lost(exc)

    def _end(self) -> None:
        """Close, and do not wait long for what was written to be taken."""
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None
        self.transport.close()
        self._leave_within(SOON)

    def _answer_no_more(self) -> None:
        """Nobody is there: of several requests uvicorn would tell the last that came, and go on with the others."""
        for cycle in (self._answered, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
        self.pipeline.clear()

    def _count_unread(self, size: int) -> None:
        self.config.unread += size - self._unread
        self._unread = size

    def _leave_within(self, seconds: float) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = self.loop.call_later(seconds, self.transport.abort)
