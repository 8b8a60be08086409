"""Sending reports: in batches, again and again if the network fails, always the same bytes.

A report is never made anew for a retry: that would spend the person's budget again. What arrives twice carries the same
id, and the collector counts it once. Network errors, 408, 429 and 5xx are retried with growing pauses; any other answer
stops the upload with the server's own reason (an RFC 9457 problem document). Standard library only.
"""

from __future__ import annotations

import http.client
import queue
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar
from urllib.parse import urlsplit

from taskveil.errors import UploadError
from taskveil.problem_document import PROBLEM, ProblemDocument
from taskveil.wire import BINARY, Report, pack_batch

Result = TypeVar("Result")

_LOCAL = ("127.0.0.1", "::1", "localhost")
_LONGEST_PAUSE = 60.0
_RETRIED = (408, 429)  # too slow, too many: like a server's own failures, a matter of time
_READ_AT_MOST = 1 << 16  # bytes of an answer


def upload(
    reports: Sequence[Report],
    url: str,
    *,
    batch: int = 1000,
    attempts: int = 6,
    timeout: float = 10.0,
    pause: float = 0.5,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Send all reports to `url` (…/v1/reports) and return how many were accepted: all, or an UploadError.

    Args:
        reports: as `Client.report` made them; they are sent as they are.
        url: the collector's address, https.
        batch: how many travel together.
        attempts: how often a batch is sent before it is given up.
        timeout: seconds that one attempt may take in all, however its answer trickles in.
        pause: the n-th retry of a batch waits about pause · 2ⁿ seconds, or what the server asks for in Retry-After.
        sleep: how to wait.
    """
    if type(batch) is not int or batch < 1 or type(attempts) is not int or attempts < 1:
        raise UploadError("batch and attempts are whole numbers of at least 1. Nothing was sent.")
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        raise UploadError(f"{url!r} is no address. Nothing was sent.") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise UploadError(f"reports are sent over https only, got {url!r}.")
    if not named:
        raise UploadError(f"{url!r} names no server. Nothing was sent.")
    sent = 0
    for _, same in groupby(reports, key=lambda report: (report.release, len(report.payload))):
        waiting = list(same)  # a batch carries reports of one release; all are sent in their order
        for start in range(0, len(waiting), batch):
            chunk = waiting[start : start + batch]
            _send(pack_batch(chunk), url, attempts=attempts, timeout=timeout, pause=pause, sleep=sleep, sent=sent)
            sent += len(chunk)
    return sent


def _send(
    body: bytes,
    url: str,
    *,
    attempts: int,
    timeout: float,
    pause: float,
    sleep: Callable[[float], object],
    sent: int,
) -> None:
    headers = {"Content-Type": BINARY, "Accept": PROBLEM}
    reason, status, wait = "no attempt was made", None, 0.0
    for attempt in range(attempts):
        if attempt:
            sleep(wait)
        wait = min(pause * 2**attempt * secrets.SystemRandom().uniform(0.5, 1.0), _LONGEST_PAUSE)
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310
        try:
            refusal = _within(timeout, partial(_attempt, request, timeout))
        except (OSError, http.client.HTTPException) as error:  # no connection, reset, timeout, half an answer
            reason, status = repr(error), None
            continue
        if refusal is None:
            return
        problem, asked = refusal
        reason, status = str(problem), problem.status
        if status not in _RETRIED and status < 500:
            raise UploadError(f"the collector refused the reports ({status}): {problem}", sent=sent, status=status)
        wait = max(wait, asked)
    raise UploadError(
        f"the reports were not accepted after {attempts} attempts (last: {reason}). Send the same reports again later.",
        sent=sent,
        status=status,
    )


def _attempt(request: urllib.request.Request, timeout: float) -> tuple[ProblemDocument, float] | None:
    """None if the reports were accepted; else why not, and how many seconds the server asks to wait."""
    try:
        with _opener(request.full_url).open(request, timeout=timeout) as answer:
            answer.read(_READ_AT_MOST)
            return None
    except urllib.error.HTTPError as error:
        with error:
            return ProblemDocument.from_json(_rest(error), status=error.code), _asked(error)


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
