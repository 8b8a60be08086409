"""Uploads against a small server that drops, delays and refuses."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from http_servers import answering
from taskveil.client import upload as simple_upload
from taskveil.client import uploading
from taskveil.client.uploading import upload
from taskveil.client.wire import BINARY, PROBLEM, ProblemDocument, Report, unpack_batch
from taskveil.errors import UploadError

REPORTS = [Report(release=b"r" * 32, id=bytes([i]) * 16, payload=bytes([i])) for i in range(10)]


def answer(accepted: int, duplicate: int, *rejected: tuple[int, str]) -> bytes:
    listed = [{"place": place, "id": "00" * 16, "reason": reason} for place, reason in rejected]
    return json.dumps({"accepted": accepted, "duplicate": duplicate, "rejected": listed}).encode()


class Collector(ThreadingHTTPServer):
    """Does what `script` says for each request in turn, then accepts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.script: list[object] = []
        self.bodies: list[bytes] = []
        self.accepted: list[Report] = []
        self.tokens: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/reports"

    def handle_error(self, *_: object) -> None:
        pass


class Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == BINARY
        assert self.path == "/v1/reports"
        self.server.bodies.append(body)
        self.server.tokens.append(self.headers["Authorization"])
        step = self.server.script.pop(0) if self.server.script else 202
        if step == "drop":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
        elif step == "accept, then drop":
            self.server.accepted += unpack_batch(body)
            self.connection.close()
        elif step == "delay":
            time.sleep(0.6)
        elif step == "drip":
            for _ in range(40):  # a byte before every timeout, and never a whole answer
                self.wfile.write(b"H")
                time.sleep(0.1)
        elif step == "garbage":
            self.wfile.write(b"I am no HTTP server\r\n\r\n")
        elif isinstance(step, str) and step.startswith("raw "):
            self.wfile.write(step[4:].encode())
        elif step == "redirect":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        elif step == "quote":
            self._problem(403, {}, detail=f"{self.headers['Authorization']} may not do this")
        elif step == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b'{"accepted": 3, "rejected": [')
        elif isinstance(step, bytes):
            self.send_response(200)
            self.send_header("Content-Length", str(len(step)))
            self.end_headers()
            self.wfile.write(step)
        elif isinstance(step, tuple):
            status, headers = step
            self._problem(status, headers)
        elif step == 202:
            self.server.accepted += unpack_batch(body)
            said = answer(len(unpack_batch(body)), 0)
            self.send_response(202)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
        else:
            self._problem(step, {})  # type: ignore[arg-type]

    def _problem(self, status: int, headers: dict[str, str], detail: str = "this release was withdrawn") -> None:
        body = ProblemDocument(status=status, title="No", detail=detail).to_json()
        self.send_response(status)
        for name, value in {"Content-Type": PROBLEM, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with answering(Collector()) as server:
        yield server


def test_batches_arrive_in_order(collector: Collector) -> None:
    assert upload(REPORTS, collector.url, batch=4) == 10
    assert collector.accepted == REPORTS
    assert len(collector.bodies) == 3
    assert simple_upload(REPORTS, collector.url) == 10


@pytest.mark.parametrize("trouble", ["drop", "garbage", "delay", 429, 500, 503])
def test_trouble_is_retried_with_the_same_bytes(collector: Collector, trouble: object) -> None:
    collector.script = [trouble, trouble, trouble]
    pauses: list[float] = []
    assert upload(REPORTS, collector.url, timeout=0.3, sleep=pauses.append) == 10
    assert collector.accepted == REPORTS
    assert len(collector.bodies) == 4
    assert len(set(collector.bodies)) == 1
    assert len(pauses) == 3
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0 <= pauses[2] <= 2.0


def test_what_arrived_twice_has_the_same_ids(collector: Collector) -> None:
    collector.script = ["accept, then drop"]
    upload(REPORTS, collector.url, sleep=lambda _: None)
    assert collector.accepted == REPORTS * 2
    assert len({report.id for report in collector.accepted}) == 10


@pytest.mark.parametrize("status", ["200 OK", "503 No"])
def test_an_answer_of_nonsense_is_retried(collector: Collector, status: str) -> None:
    """A chunk of −5 bytes raised a ValueError out of `upload`."""
    collector.script = [f"raw HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n"] * 2
    assert upload(REPORTS, collector.url, sleep=lambda _: None) == 10
    assert len(collector.bodies) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_refusal_stops_with_the_servers_reason(collector: Collector, status: int) -> None:
    collector.script = [202, status]
    with pytest.raises(UploadError, match="this release was withdrawn") as caught:
        upload(REPORTS, collector.url, batch=4, sleep=lambda _: pytest.fail("a refusal must not be retried"))
    assert caught.value.status == status
    assert caught.value.sent == 4
    assert collector.accepted == REPORTS[:4]
    assert len(collector.bodies) == 2


def test_redirects_are_not_followed(collector: Collector) -> None:
    collector.script = ["redirect"]
    with pytest.raises(UploadError, match="302"):
        upload(REPORTS, collector.url)


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("1e9", 60.0), ("soon", 0.5), ("-3", 0.5)])
def test_the_server_may_ask_for_a_pause(collector: Collector, asked: str, waited: float) -> None:
    collector.script = [(429, {"Retry-After": asked})]
    pauses: list[float] = []
    upload(REPORTS, collector.url, sleep=pauses.append)
    assert pauses[0] == waited or 0.25 <= pauses[0] <= waited == 0.5


def test_it_gives_up_in_the_end(collector: Collector) -> None:
    collector.script = [503] * 99
    with pytest.raises(UploadError, match=r"after 3 attempts.*withdrawn.*same reports again") as caught:
        upload(REPORTS, collector.url, attempts=3, sleep=lambda _: None)
    assert caught.value.status == 503
    assert caught.value.sent == 0
    assert len(collector.bodies) == 3


def test_nobody_there(collector: Collector) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1/reports"
        with pytest.raises(UploadError, match="after 2 attempts"):
            upload(REPORTS, url, attempts=2, sleep=lambda _: None)


@pytest.mark.parametrize(
    "url", ["http://example.org/v1/reports", "ftp://localhost/x", "file:///etc/passwd", "nonsense"]
)
def test_reports_travel_encrypted(url: str) -> None:
    with pytest.raises(UploadError, match="https only"):
        upload(REPORTS, url)


def test_the_functions_name_stays_the_functions() -> None:
    """A module of the same name would take its place as soon as anything imports it."""
    code = (
        "import importlib, pkgutil, taskveil.client as client\n"
        "named = {name: getattr(client, name) for name in client.__all__}\n"
        "for found in pkgutil.walk_packages(client.__path__, 'taskveil.client.'): importlib.import_module(found.name)\n"
        "from taskveil.client import upload\n"
        "print(callable(upload), all(getattr(client, name) is thing for name, thing in named.items()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "True"]


def test_reports_of_several_releases_are_sent_in_their_order(collector: Collector) -> None:
    ones = [Report(release=b"a" * 32, id=bytes([i]) * 16, payload=b"x") for i in range(3)]
    others = [Report(release=b"b" * 32, id=bytes([9]) * 16, payload=b"yy")]
    assert upload([*ones, *others, ones[0]], collector.url, batch=2, sleep=lambda _: None) == 5
    assert [len(unpack_batch(body)) for body in collector.bodies] == [2, 1, 1, 1]


def test_a_request_that_took_too_long_is_tried_again(collector: Collector) -> None:
    collector.script = [408]
    assert upload([Report(release=b"a" * 32, id=b"i" * 16, payload=b"x")], collector.url, sleep=lambda _: None) == 1


def test_an_attempt_ends_in_time_however_its_answer_trickles_in(collector: Collector) -> None:
    collector.script = ["drip"]
    start = time.monotonic()
    with pytest.raises(UploadError, match=r"within 0\.3 seconds"):
        upload(REPORTS, collector.url, timeout=0.3, attempts=1)
    assert time.monotonic() - start < 2.0


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"batch": -1}, {"batch": 1.5}, {"attempts": 0}, {"attempts": True},
                                   {"pause": -1}, {"pause": math.nan}, {"timeout": -1.0}, {"pause": "1"},
                                   {"timeout": 1e300}, {"timeout": 10**400}, {"pause": 10**400},
                                   {"pause": 2**31 / 1000}])  # fmt: skip
def test_impossible_wishes_are_refused_before_anything_is_sent(wrong: dict[str, Any], collector: Collector) -> None:
    with pytest.raises(UploadError, match="Nothing was sent"):
        upload(REPORTS, collector.url, **wrong)
    assert collector.bodies == []


@pytest.mark.parametrize("url", ["https://[bad", 5, None, b"https://x", "https://", "https://host:99999/v1/reports",
    "https://host/ünicode", f"https://{'a' * 64}.example/", "https://host/a b", "https://host/\r\n",
    "https://name:word@host/v1/reports"])  # fmt: skip
def test_what_is_no_address_is_refused(url: object) -> None:
    with pytest.raises(UploadError):
        upload(REPORTS, url, sleep=lambda _: pytest.fail("nothing may be sent"))  # type: ignore[arg-type]


def test_two_thousand_attempts_are_no_error_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause doubles with every attempt, and 2^1024 is no double."""
    answers = iter([(503, b"", 0.0)] * 1100 + [(200, answer(10, 0), 0.0)])
    monkeypatch.setattr(uploading, "_attempt", lambda *_: next(answers))
    pauses: list[float] = []
    assert upload(REPORTS, "http://127.0.0.1:9", attempts=2000, sleep=pauses.append) == 10
    assert len(pauses) == 1100
    assert max(pauses) <= 60.0


TOKEN = "tv_0123abcd_secret-word"


def test_a_token_goes_along_with_every_attempt(collector: Collector) -> None:
    collector.script = [503, answer(4, 0), answer(1, 3), answer(2, 0)]
    assert upload(REPORTS, collector.url, token=TOKEN, batch=4, sleep=lambda _: None) == 10
    assert collector.tokens == [f"Bearer {TOKEN}"] * 4
    upload(REPORTS, collector.url)
    assert collector.tokens[-1] is None


@pytest.mark.parametrize("step", [401, 503, "drop", "garbage", "redirect", "quote", "reject",
                                  f"raw Authorization: Bearer {TOKEN}\r\n\r\n"])  # fmt: skip
def test_no_error_holds_the_token(collector: Collector, step: object) -> None:
    collector.script = [answer(9, 0, (0, f"not {TOKEN}")) if step == "reject" else step]
    with pytest.raises(UploadError) as caught:
        upload(REPORTS, collector.url, token=TOKEN, attempts=1)
    for shown in (str(caught.value), repr(caught.value), str(caught.value.rejected), repr(caught.value.__cause__)):
        assert "secret" not in shown


def test_no_error_holds_a_piece_of_the_token(collector: Collector) -> None:
    """A long reason is cut, but not in the middle of the token."""
    collector.script = [answer(9, 0, (0, "x" * 990 + TOKEN + "y" * 90))]
    with pytest.raises(UploadError) as caught:
        upload(REPORTS, collector.url, token=TOKEN)
    assert caught.value.rejected == {0: "x" * 990 + "…" + "y" * 9}


@pytest.mark.parametrize("url", ["https://user:pa55@host/", "http://user:pa55@host/", "https://user:pa55@[bad/",
                                 "https://user:pa55@host:99999/"])  # fmt: skip
def test_no_error_holds_the_password_of_an_address(url: str) -> None:
    with pytest.raises(UploadError, match="name or password") as caught:
        upload(REPORTS, url)
    assert "pa55" not in repr(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX-Other: 1", "ключ", 5, b"tv_a_b"])
def test_what_is_no_token_is_refused_unquoted(collector: Collector, token: object) -> None:
    with pytest.raises(UploadError, match="the token must be") as caught:
        upload(REPORTS, collector.url, token=token)  # type: ignore[arg-type]
    assert collector.bodies == []
    assert not token or str(token) not in str(caught.value)


def test_rejected_reports_cost_the_others_nothing(collector: Collector) -> None:
    collector.script = [
        answer(3, 0, (2, "other bytes are stored under this id.")),
        answer(2, 2),
        answer(0, 1, (1, "no.")),
    ]
    with pytest.raises(UploadError, match=r"rejected 2 of 10 .* other bytes are stored") as caught:
        upload(REPORTS, collector.url, batch=4)
    assert len(collector.bodies) == 3
    assert caught.value.rejected == {2: "other bytes are stored under this id.", 9: "no."}
    assert caught.value.sent == 8


def test_reasons_cannot_steer_a_terminal(collector: Collector) -> None:
    collector.script = [answer(9, 0, (2, "no\x1b[2J\x1b]0;all is well\x07"))]
    with pytest.raises(UploadError) as caught:
        upload(REPORTS, collector.url)
    assert str(caught.value).isprintable()
    assert caught.value.rejected[2].isprintable()


def test_numbers_are_read_as_browsers_read_them(collector: Collector) -> None:
    """Whole numbers, however they are written, and reasons that are text."""
    numbers = b'"accepted": 8.0, "duplicate": 1e0, "more": ' + b"9" * 5000
    collector.script = [b'{"rejected": [{"place": 3.0, "reason": {"a": 1}}], %s}' % numbers]
    with pytest.raises(UploadError, match="none was given") as caught:
        upload(REPORTS, collector.url)
    assert repr(caught.value.rejected) == "{3: 'none was given.'}"


def test_what_is_left_after_trouble_can_be_told(collector: Collector) -> None:
    collector.script = [answer(3, 0, (2, "no.")), 403]
    with pytest.raises(UploadError, match="withdrawn") as caught:
        upload(REPORTS, collector.url, batch=4)
    assert (caught.value.sent, caught.value.rejected, caught.value.status) == (3, {2: "no."}, 403)


def test_all_of_many_reasons_are_read(collector: Collector) -> None:
    many = [Report(release=b"r" * 32, id=i.to_bytes(16, "big"), payload=b"x") for i in range(1000)]
    collector.script = [answer(0, 0, *((place, "no. " * 40) for place in range(1000)))]
    with pytest.raises(UploadError, match="rejected 1000 of 1000") as caught:
        upload(many, collector.url)
    assert list(caught.value.rejected) == list(range(1000))


REJECTED = [b'{"rejected": 3}', b'{"rejected": [5, {}]}', b'{"accepted": 10, "duplicate": 0, "rejected": [7]}']
FOREIGN = {
    "an empty body": b"",
    "a word": b"OK",
    "a proxy's page": b"<html><body>Please log in</body></html>",
    "a list": b"[1]",
    "deep JSON": b"[" * 60_000,
    "none accepted": answer(0, 0),
    "one too few": answer(9, 0),
    "one too many": answer(10, 1),
    "no duplicates": b'{"accepted": 10, "rejected": []}',
    "accepted as text": b'{"accepted": "10", "duplicate": 0, "rejected": []}',
    "accepted as true": b'{"accepted": true, "duplicate": 9, "rejected": []}',
    "a negative number": answer(-1, 11),
    "places outside": answer(8, 0, (-1, "no"), (10, "no")),
    "a place behind the last": answer(9, 0, (10, "no")),
    "a place twice": answer(8, 0, (3, "no"), (3, "no")),
    "a place twice, counted once": answer(9, 0, (3, "no"), (3, "no")),
    "places that are none": b'{"accepted": 9, "duplicate": 0, "rejected": [{"place": 1.5, "reason": "no"}]}',
    "an object": b'{"accepted": 10, "duplicate": 0, "rejected": {}}',
    "a text": b'{"accepted": 10, "duplicate": 0, "rejected": ""}',
    "no JSON": b'{"accepted": 10, "duplicate": 0, "rejected": [], "more": NaN}',
    "UTF-16": answer(10, 0).decode().encode("utf-16"),
    **{f"rejected {number}": body for number, body in enumerate(REJECTED)},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_success_that_does_not_account_for_every_report_is_asked_for_again(collector: Collector, name: str) -> None:
    """Until then, any status 200 counted as stored, and the reports were dropped."""
    collector.script = [FOREIGN[name], FOREIGN[name]]
    assert upload(REPORTS, collector.url, sleep=lambda _: None) == 10
    assert len(collector.bodies) == 3
    assert len(set(collector.bodies)) == 1
    collector.script = [FOREIGN[name]] * 2
    with pytest.raises(UploadError, match=r"after 2 attempts.*Send the same reports") as caught:
        upload(REPORTS, collector.url, attempts=2, sleep=lambda _: None)
    assert (caught.value.sent, caught.value.rejected) == (0, {})


def test_half_an_answer_is_asked_for_again(collector: Collector) -> None:
    collector.script = ["cut", answer(0, 9, (3, "no."))]
    with pytest.raises(UploadError) as caught:
        upload(REPORTS, collector.url, sleep=lambda _: None)
    assert caught.value.rejected == {3: "no."}
    assert len(set(collector.bodies)) == 1
