"""Bodies and whole requests that no device ever made: no answer of the 500s, and no row that is not a valid report."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import taskveil as tv
from faults.harness import ROOT, Collector, Row, add_token, collector_for
from faults.sending import Answer, BrokenOffError, Connection, Maker, ask_once, body_of, request
from faults.stored import Database
from taskveil.client import wire
from taskveil.client.wire import PROBLEM, Report
from taskveil.errors import TaskveilError

ODD = [
    *(0, -1, 1, 2**31, 2**63, 2**64, 10**400, -0.0, 1.5, 1e308, 5e-324, True, False, None, "", "\x00", "\ud800", "💥"),
    *("NaN", "0x10", " 00", "zz", "ＡＢ", "1" * 100_000, [], {}, [[]], [None], {"": {}}, ["00"], "-1", "false"),
]
"""What takes the place of a value in JSON."""

_LONG = b"\r\nX-Long: " + b"a" * 2_000_000
_MANY = b"".join(b"\r\nX-%d: 1" % n for n in range(200_000))
"""Headers of megabytes, which nobody should read to their end."""
_INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]


class Fuzzer:
    """Bodies, each by one of several ways of spoiling a good one. All randomness is `random`'s."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self.ways: list[Callable[[], bytes]] = [
            self.flipped, self.flipped, self.cut, self.longer, self.announced, self.random_bytes, self.other_head,
            self.spliced, self.json_value, self.json_value, self.json_text, self.json_deep, self.json_cut,
            self.json_keys, self.other_lengths,
        ]  # fmt: skip

    def body(self) -> bytes:
        """One of any kind."""
        return random.choice(self.ways)()

    def _binary(self) -> bytearray:
        return bytearray(body_of(self._maker.reports(random.choice((1, 1, 2, 3, 20)))))

    def _json(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(wire.to_json(self._maker.reports(random.choice((1, 2, 5)))))
        return found

    def flipped(self) -> bytes:
        """A few bytes are others."""
        raw = self._binary()
        for _ in range(random.choice((1, 1, 2, 5, 30))):
            place = random.randrange(min(len(raw), random.choice((8, 44, len(raw)))))
            raw[place] = random.choice((*_INTERESTING, random.randrange(256)))
        return bytes(raw)

    def cut(self) -> bytes:
        """Nothing after some byte."""
        raw = self._binary()
        return bytes(raw[: random.randrange(len(raw))])

    def longer(self) -> bytes:
        """Something behind."""
        return bytes(self._binary()) + os.urandom(random.choice((1, 2, 16, 18, 1000)))

    def announced(self) -> bytes:
        """A batch with other sizes and counts than it holds."""
        raw = bytearray(wire.pack_batch(self._maker.reports(3)))
        size = random.choice((0, 1, 2, 255, 65535, random.randrange(65536)))
        count = random.choice((0, 1, 2, 4, 2**16, 2**20, 2**20 + 1, 2**31, 2**32 - 1))
        if random.random() < 0.5:
            raw[36:38] = size.to_bytes(2, "little")
        if random.random() < 0.8:
            raw[38:42] = count.to_bytes(4, "little")
        return bytes(raw)

    def random_bytes(self) -> bytes:
        """Anything, sometimes with our first letters."""
        return random.choice((b"", b"", b"TV", b"TV\x01\x01", b"TV\x01\x02")) + os.urandom(
            random.choice((0, 1, 50, 5000))
        )

    def other_head(self) -> bytes:
        """Another version, kind or release."""
        raw = self._binary()
        place = random.choice((2, 3, random.randrange(4, 36)))
        raw[place] = random.randrange(256)
        return bytes(raw)

    def spliced(self) -> bytes:
        """Parts of two."""
        one, two = self._binary(), self._binary()
        return bytes(one[: random.randrange(len(one))] + two[random.randrange(len(two)) :])

    def other_lengths(self) -> bytes:
        """Payloads that are too short, too long, or of values that no device reports."""
        size = random.choice((1, 2, 3, 8, 100, 65535))
        count = 1 if size > 1000 else random.choice((1, 2, 10))
        reports = [
            Report(release=self._maker.release, id=os.urandom(16), payload=random.choice((b"\xff", b"\0")) * size)
            for _ in range(count)
        ]
        return body_of(reports, json=random.random() < 0.5)

    def json_value(self) -> bytes:
        """One value somewhere is an odd one."""
        body = self._json()
        value = random.choice(ODD)
        place = random.choice(("version", "release", "reports", "report", "id", "payload"))
        reports = body["reports"]
        assert isinstance(reports, list)
        if place in ("version", "release", "reports"):
            body[place] = value
        elif place == "report":
            reports[0] = value
        else:
            reports[-1][place] = value
        return json.dumps(body).encode("utf-8", "surrogatepass")

    def json_keys(self) -> bytes:
        """A key is missing, is another one, or comes twice."""
        raw = json.dumps(self._json())
        key = random.choice(("version", "release", "reports", "id", "payload"))
        spoilt = random.choice(
            (
                raw.replace(f'"{key}"', '"other"', 1),
                raw.replace(f'"{key}"', f'"{key}": 1, "{key}"', 1),
                raw.replace("}", ', "more": 1}', 1),
                "[" + raw + "]",
                raw + raw,
            )
        )
        return spoilt.encode()

    def json_text(self) -> bytes:
        """JSON with some letters changed, in other encodings, or not JSON at all."""
        raw = bytearray(json.dumps(self._json()).encode())
        for _ in range(random.choice((1, 3, 10))):
            raw[random.randrange(len(raw))] = random.choice(b'"{}[]:,\\ \x00\xff\xc30eE-+.uNI')
        text = random.choice(
            (bytes(raw), b"NaN", b"Infinity", b'{"version": NaN}', b"\xef\xbb\xbf" + bytes(raw), b"null")
        )
        return text.decode("latin-1").encode("utf-16") if random.random() < 0.1 else text

    def json_deep(self) -> bytes:
        """Brackets in brackets."""
        depth = random.choice((50, 900, 1100, 20_000, 100_000))
        opening = random.choice((b"[", b'{"a":', b'{"reports":['))
        return opening * depth + random.choice((b"", b"1", b"]" * depth))

    def json_cut(self) -> bytes:
        """Nothing after some letter."""
        raw = json.dumps(self._json()).encode()
        return raw[: random.randrange(len(raw))]


def fuzzed_bodies(
    folder: Path, database: Database, *, bodies: int, connections: int = 8, collector: Collector | None = None
) -> Row:
    """Send so many spoilt bodies over real HTTP; every row that comes of them must be a valid report."""
    if collector is None:
        collector = collector_for(folder, database)
    release = collector.releases[0]
    token = add_token(database, "upload")
    with collector.running():
        statuses, accepted, complaints = asyncio.run(_send_all(collector, token, bodies, connections))
        rows = database.rows()
        alive = collector.process is not None and collector.process.poll() is None
    impossible = [row for row in rows if len(row.id) != 16 or not _possible(release.veil, row.payload)]
    complaints += database.inconsistencies()
    if impossible:
        complaints.append(f"{len(impossible)} rows that no device can have made")
    if not alive:
        complaints.append("the collector has ended")
    if len(rows) != accepted:
        complaints.append(f"{accepted} reports were said to be accepted and {len(rows)} are stored")
    server_errors = sum(count for status, count in statuses.items() if status >= 500)
    return Row(
        name=f"fuzzed bodies, {database.kind}",
        done=f"{bodies:,} spoilt bodies, binary and JSON",
        counts={
            "5xx": server_errors,
            "4xx": sum(count for status, count in statuses.items() if 400 <= status < 500),
            "200": statuses[200],
            "unanswered": statuses[0],
            "rows of valid reports": len(rows),
            "rows of others": len(impossible),
        },
        complaints=complaints,
    )


def _possible(veil: tv.Veil, payload: bytes) -> bool:
    try:
        veil.checked([veil.mechanism.layout.unpack(payload)])
    except TaskveilError:
        return False
    return True


async def _send_all(
    collector: Collector, token: str, bodies: int, connections: int
) -> tuple[Counter[int], int, list[str]]:
    fuzzer = Fuzzer(Maker(collector.releases[0].veil))
    statuses: Counter[int] = Counter()
    complaints: Counter[str] = Counter()
    accepted, left = 0, bodies

    async def send() -> None:
        nonlocal accepted, left
        connection = None
        while left > 0:
            left -= 1
            body = fuzzer.body()
            type = random.choices((wire.BINARY, wire.JSON, "text/plain", ""), (48, 48, 2, 2))[0]
            raw = request("POST", wire.PATH, token=token, body=body, type=type)
            try:
                connection = connection or await Connection.open(collector.address)
                answer = await connection.ask(raw, seconds=60)
            except (OSError, TimeoutError):
                if connection is not None:
                    connection.close()
                connection = None
                statuses[0] += 1
                complaints["a body was not answered"] += 1
                continue
            statuses[answer.status] += 1
            complaints.update(_judged(answer))
            accepted += answer.json()["accepted"] if answer.status == 200 else 0
            if answer.header("connection") == "close":
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    await asyncio.gather(*(send() for _ in range(connections)))
    return statuses, accepted, [f"{count} × {what}" for what, count in complaints.items()]


def _judged(answer: Answer) -> list[str]:
    if answer.status >= 500:
        return [f"status {answer.status}"]
    if answer.status >= 400 and answer.header("content-type") != PROBLEM:
        return [f"{answer.status} that is no problem document but {answer.header('content-type')}"]
    return []


def fuzzed_requests(folder: Path, database: Database, *, requests: int, deadline: float = 3.0) -> Row:
    """Whole requests that are spoilt: lines, headers, lengths, chunks. Closed or answered below 500, and no row.

    The collector is told to wait for so many seconds for the end of a request that has none.
    """
    collector = collector_for(folder, database, request_seconds=deadline)
    token = add_token(database, "upload")
    maker = Maker(collector.releases[0].veil)
    statuses: Counter[str] = Counter()
    complaints: Counter[str] = Counter()

    async def one() -> None:
        try:
            answer = await ask_once(collector.address, spoilt_request(maker, token), seconds=15)
        except BrokenOffError:
            statuses["closed"] += 1
        except (OSError, TimeoutError, ValueError) as error:
            complaints[f"{type(error).__name__}: neither answered nor closed"] += 1
        else:
            statuses[f"{answer.status // 100}xx"] += 1
            complaints.update([f"status {answer.status}"] if answer.status >= 500 else [])

    async def everything() -> None:
        for _ in range(0, requests, 50):
            await asyncio.gather(*(one() for _ in range(50)))

    with collector.running():
        asyncio.run(everything())
        rows = database.rows()
        honest = collector.ask("POST", wire.PATH, token=token, body=body_of(maker.reports(1)))
    wrong = [f"{count} × {what}" for what, count in complaints.items()]
    if rows:
        wrong.append(f"{len(rows)} rows came of requests that are none")
    if honest.status != 200:
        wrong.append(f"afterwards an honest report is answered with {honest.status}")
    return Row(
        name=f"fuzzed requests, {database.kind}",
        done=f"{requests:,} spoilt requests: lines, headers, lengths, chunks",
        counts={**dict(sorted(statuses.items())), "rows": len(rows)},
        complaints=wrong,
    )


def spoilt_request(maker: Maker, token: str) -> bytes:
    """One of several ways in which a request is none. None of them may lead to a row."""
    body = body_of(maker.reports(2))
    good = request("POST", wire.PATH, token=token, body=body)
    head, chunked = good[: -len(body)], good[: -len(body)].replace(
        f"Content-Length: {len(body)}".encode(), b"Transfer-Encoding: chunked"
    )  # fmt: skip
    return random.choice(
        (
            os.urandom(200) + b"\r\n\r\n",
            head.replace(b"HTTP/1.1", random.choice((b"HTTP/9.9", b"", b"HTTP/1.1 \xff"))) + body,
            head.replace(b"POST", random.choice((b"POST\0", b"P\xffST", b"A" * 9000))) + body,
            head.replace(b"Content-Length: ", random.choice((b"Content-Length: -", b"Content-Length: 1e"))) + body,
            head.replace(b"Content-Length: ", b"Content-Length: 999999999999999999") + body,
            head.replace(b"\r\nContent-Length", b"\r\nContent-Length: 3\r\nContent-Length") + body,
            head.replace(b"\r\nHost", b"\r\nTransfer-Encoding: chunked\r\nHost") + body,
            head.replace(b"\r\nHost", _LONG + b"\r\nHost") + body,
            head.replace(b"\r\nHost", _MANY + b"\r\nHost") + body,
            chunked + b"zz\r\n" + body,
            chunked + b"ffffffffffffffff\r\n" + body,
            chunked + b"-1\r\n" + body + b"\r\n0\r\n\r\n",
            head.replace(b"/v1/reports", b"/v1/reports?round=" + b"%00%ff" * random.randint(1, 900)) + body,
            head.replace(b"/v1/reports", b"/v1/" + b"../" * random.randint(1, 50) + b"reports") + body,
            head.replace(b"Bearer", b"Bearer\x00") + body,
        )
    )


def schemathesis(folder: Path, database: Database, *, examples: int) -> Row:
    """Schemathesis reads our own OpenAPI document and tries everything it allows and does not allow."""
    collector = collector_for(folder, database)
    token = add_token(database, "admin")
    with collector.running():
        address = "http://{}:{}/openapi.json".format(*collector.address)
        command = [sys.executable, "-m", "schemathesis.cli", "run", address, "-H", f"Authorization: Bearer {token}"]
        options = ["--checks", "not_a_server_error", "--max-examples", str(examples), "--no-color"]
        options += ["--generation-database", "none", "--exclude-path", "/metrics"]
        paths = os.pathsep.join(map(str, (ROOT / "src", Path(__file__).parent)))
        environment = os.environ | {"PYTHONPATH": paths, "SCHEMATHESIS_HOOKS": "schemathesis_hooks"}
        done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=folder, env=environment)
        rows = database.rows()
    tried = re.search(r"(\d[\d,]*) generated", done.stdout)
    operations = re.search(r"Selected: (\d+)", done.stdout) or re.search(r"(\d+) selected", done.stdout)
    complaints = [] if done.returncode == 0 else ["Schemathesis objects:\n" + done.stdout[-3000:] + done.stderr[-500:]]
    if tried is None:
        complaints.append("Schemathesis does not say how much it tried")
    # It reads a release's id in an answer and puts it into the document's own example: that is a report.
    impossible = [row for row in rows if len(row.id) != 16 or not _possible(collector.releases[0].veil, row.payload)]
    if impossible:
        complaints.append(f"{len(impossible)} rows that no device can have made")
    return Row(
        name=f"Schemathesis, {database.kind}",
        done="what it makes of /openapi.json, with a token that allows everything",
        counts={
            "operations": int(operations[1]) if operations else 0,
            "requests": int(tried[1].replace(",", "")) if tried else 0,
            "5xx": 0 if done.returncode == 0 else "some",
            "rows of valid reports": len(rows),
            "rows of others": len(impossible),
        },
        complaints=complaints,
    )
