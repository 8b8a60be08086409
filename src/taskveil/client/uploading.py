"""Sending reports in batches, with retries that always send the same bytes.

A report is never made again for a retry: that would spend the person's budget again. A report that arrives twice
carries the same id, and the collector counts it once. Network errors, 408, 429 and 5xx are retried with growing pauses.
Any other answer stops the upload with the server's reason (an RFC 9457 problem document). A collector may reject single
reports of a batch and accept the others. Standard library only.
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
_RETRIED = (408, 429)  # too slow, too many requests: try again later, as after a failure of the server
_MOST_ANSWER = 1 << 16  # bytes that are read of an answer, and for every report a reason:
_MOST_REASON = 1 << 10  # characters
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as in RFC 6750


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

    Reports that the collector has already count as accepted. If it rejects some, all others are sent first. The error
    then says which were rejected (`.rejected`, by place) and how many were accepted (`.sent`).

    Args:
        reports: as `Client.report` made them; they are sent unchanged.
        url: the collector's address, https.
        token: the upload token of the collector, if it needs one. No error shows it.
        batch: reports per request.
        attempts: how often a batch is sent at most.
        timeout: seconds that one attempt may take in all, even if the answer comes slowly.
        pause: the n-th retry of a batch waits about pause · 2ⁿ seconds, or as long as the server asks in Retry-After.
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
    connection = _Connection(url=url, token=token, attempts=attempts, timeout=timeout, pause=pause, sleep=sleep)
    done, rejected = 0, dict[int, str]()
    for _, same in groupby(reports, key=lambda report: (report.release, len(report.payload))):
        waiting = list(same)  # a batch carries reports of one release; all are sent in their order
        for start in range(0, len(waiting), batch):
            chunk = waiting[start : start + batch]
            try:
                answer = connection.send(pack_batch(chunk), len(chunk))
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
class _Connection:
    """Where to send, and how often to try."""

    url: str
    token: str | None
    attempts: int
    timeout: float
    pause: float
    sleep: Callable[[float], object]

    def send(self, body: bytes, count: int) -> dict[int, str]:
        """The places of rejected reports in a batch of `count`, with the reasons; UploadError if none arrived."""
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
        """The words without the token, in case the server quotes it."""
        return words if self.token is None else words.replace(self.token, "…")


def _attempt(request: urllib.request.Request, timeout: float, count: int) -> bytes | tuple[ProblemDocument, float]:
    """The collector's answer to `count` reports; if it refuses, the reason and the seconds that it asks to wait."""
    most = _MOST_ANSWER + count * _MOST_REASON
    try:
        with _opener(request.full_url).open(request, timeout=timeout) as answer:
            said: bytes = answer.read(most)
            if answer.length and len(said) < most:
                raise http.client.IncompleteRead(said, answer.length)  # it may list rejected reports: ask again
            return said
    except urllib.error.HTTPError as error:
        with error:
            return ProblemDocument.from_json(_rest(error), status=error.code), _asked(error)


def _rejected(answer: bytes, count: int) -> dict[int, str]:
    """The places (0 … count − 1) that an answer rejects, in order, with the reasons; {} for any other answer."""
    found: dict[int, str] = {}
    try:
        listed: Any = json.loads(answer)["rejected"]
        for one in listed:
            if type(one["place"]) is int and 0 <= one["place"] < count:
                found[one["place"]] = str(one.get("reason") or "none was given.")[:_MOST_REASON]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return dict(sorted(found.items()))


def _within(seconds: float, work: Callable[[], Result]) -> Result:
    """The result of `work`, or a TimeoutError: a socket's own timeout starts again with every byte.

    Work that takes too long ends by itself later. It may still succeed: a report that arrives twice is counted once.
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
    """Follows no redirect, which would turn POST into GET. Uses no proxy for this machine itself."""
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    if urlsplit(url).hostname in _LOCAL:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _rest(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_MOST_ANSWER)
    except (OSError, http.client.HTTPException):
        return b""


def _asked(error: urllib.error.HTTPError) -> float:
    """Seconds that the server asks to wait, at most a minute."""
    try:
        return min(max(float(error.headers.get("Retry-After", "0")), 0.0), _LONGEST_PAUSE)
    except ValueError:
        return 0.0
