"""Sending reports: in batches, again and again if the network fails, always the same bytes.

A report is never made anew for a retry: that would spend the person's budget again. What arrives twice carries the same
id, and the collector counts it once. Network errors, 408, 429 and 5xx are retried with growing pauses; any other answer
stops the upload with the server's own reason (an RFC 9457 problem document). A collector that takes a batch may reject
some of its reports: that costs the others nothing. Standard library only.
"""

from __future__ import annotations

import http.client
import json
import queue
import re
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar
from urllib.parse import urlsplit

from taskveil.client.wire import BINARY, MOST_POSTED, PROBLEM, ProblemDocument, Report, pack_batch
from taskveil.errors import UploadError

Result = TypeVar("Result")

_LOCAL = ("127.0.0.1", "::1", "localhost")
_LONGEST_PAUSE = 60.0
_RETRIED = (408, 429)  # too slow, too many: like a server's own failures, a matter of time
_READ_AT_MOST = 1 << 16  # bytes of an answer, and for every report a reason:
_REASON = 1 << 10
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as RFC 6750 has it


def upload(
    reports: Sequence[Report],
    url: str,
    *,
    token: str | None = None,
    batch: int = 1000,
    attempts: int = 6,
    timeout: float = 10.0,
    pause: float = 0.5,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Send all reports to `url` (…/v1/reports) and return how many were accepted: all, or an UploadError.

    What the collector has already counts as accepted. If it rejects some, all others are sent before the error says
    which (`.rejected`, by place) and how many were accepted (`.sent`).

    Args:
        reports: as `Client.report` made them; they are sent as they are.
        url: the collector's address, https.
        token: that the collector's owner gave out for uploads, if it takes one. It appears in no error.
        batch: how many travel together.
        attempts: how often a batch is sent before it is given up.
        timeout: seconds that one attempt may take in all, however its answer trickles in.
        pause: the n-th retry of a batch waits about pause · 2ⁿ seconds, or what the server asks for in Retry-After.
        sleep: how to wait.
    """
    if type(batch) is not int or not 1 <= batch <= MOST_POSTED or type(attempts) is not int or attempts < 1:
        raise UploadError(
            f"batch and attempts are whole numbers of at least 1, and a batch has {MOST_POSTED:,} reports at most. "
            "Nothing was sent."
        )
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        raise UploadError(f"{url!r} is no address. Nothing was sent.") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise UploadError(f"reports are sent over https only, got {url!r}.")
    if not named:
        raise UploadError(f"{url!r} names no server. Nothing was sent.")
    if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
        raise UploadError("this is no token: it is one word of letters, digits and ._~+/-. Nothing was sent.")
    road = _Road(url=url, token=token, attempts=attempts, timeout=timeout, pause=pause, sleep=sleep)
    done, rejected = 0, dict[int, str]()
    for _, same in groupby(reports, key=lambda report: (report.release, len(report.payload))):
        waiting = list(same)  # a batch carries reports of one release; all are sent in their order
        for start in range(0, len(waiting), batch):
            chunk = waiting[start : start + batch]
            try:
                answer = road.send(pack_batch(chunk), len(chunk))
            except UploadError as error:
                error.sent, error.rejected = done - len(rejected), rejected
                raise
            rejected |= {done + place: reason for place, reason in answer.items()}
            done += len(chunk)
    if rejected:
        raise UploadError(
            f"the collector rejected {len(rejected)} of {done} reports and has all others. The first reason: "
            f"{next(iter(rejected.values()))}",
            sent=done - len(rejected),
            rejected=rejected,
        )
    return done


@dataclass(frozen=True, kw_only=True)
class _Road:
    """The way to a collector, with as much patience as was asked for."""

    url: str
    token: str | None
    attempts: int
    timeout: float
    pause: float
    sleep: Callable[[float], object]

    def send(self, body: bytes, count: int) -> dict[int, str]:
        """The places of a batch of `count` that were rejected, with the reasons; UploadError if none arrived."""
        headers = {"Content-Type": BINARY, "Accept": f"application/json, {PROBLEM}"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        reason, status, wait = "no attempt was made", None, 0.0
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(wait)
            wait = min(self.pause * 2**attempt * secrets.SystemRandom().uniform(0.5, 1.0), _LONGEST_PAUSE)
            request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310
            try:
                answer = _within(self.timeout, partial(_attempt, request, self.timeout, count))
            except (OSError, http.client.HTTPException) as error:  # no connection, reset, timeout, half an answer
                reason, status = repr(error), None
                continue
            if isinstance(answer, bytes):
                return {place: self._hidden(why) for place, why in _rejected(answer, count).items()}
            problem, asked = answer
            reason, status = self._hidden(str(problem)), problem.status
            if status not in _RETRIED and status < 500:
                raise UploadError(f"the collector refused the reports ({status}): {reason}", status=status)
            wait = max(wait, asked)
        raise UploadError(
            f"the reports were not accepted after {self.attempts} attempts (last: {reason}). Send the same reports "
            "again later.",
            status=status,
        )

    def _hidden(self, words: str) -> str:
        """Without the token, should a server quote it."""
        return words if self.token is None else words.replace(self.token, "…")


def _attempt(request: urllib.request.Request, timeout: float, count: int) -> bytes | tuple[ProblemDocument, float]:
    """What the collector said to accepting `count` reports; else why not, and how many seconds it asks to wait."""
    most = _READ_AT_MOST + count * _REASON
    try:
        with _opener(request.full_url).open(request, timeout=timeout) as answer:
            said: bytes = answer.read(most)
            if answer.length and len(said) < most:
                raise http.client.IncompleteRead(said, answer.length)  # it may have told of rejected reports: ask again
            return said
    except urllib.error.HTTPError as error:
        with error:
            return ProblemDocument.from_json(_rest(error), status=error.code), _asked(error)


def _rejected(answer: bytes, count: int) -> dict[int, str]:
    """The places (0 … count − 1) that an answer rejects, in order, with the reasons; none if it is no such answer."""
    found: dict[int, str] = {}
    try:
        listed: Any = json.loads(answer)["rejected"]
        for one in listed:
            if type(one["place"]) is int and 0 <= one["place"] < count:
                found[one["place"]] = str(one.get("reason") or "none was given.")[:_REASON]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return dict(sorted(found.items()))


def _within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, or a TimeoutError: a socket's own timeout starts anew with every byte.

    Work that is given up ends by itself. It may have been done all the same; what arrives twice is counted once.
    """
    answers: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(work())
        except BaseException as error:
            answers.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no whole answer within {seconds:g} seconds") from None
    if isinstance(found, BaseException):
        raise found
    return found


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Follows no redirect (it would turn POST into GET); goes past proxies for this very machine."""
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    if urlsplit(url).hostname in _LOCAL:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _rest(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_READ_AT_MOST)
    except (OSError, http.client.HTTPException):
        return b""


def _asked(error: urllib.error.HTTPError) -> float:
    """Seconds the server asks to wait, within reason."""
    try:
        return min(max(float(error.headers.get("Retry-After", "0")), 0.0), _LONGEST_PAUSE)
    except ValueError:
        return 0.0
