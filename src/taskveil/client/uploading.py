"""Sending reports: in batches, again and again if the network fails, always the same bytes.

A report is never made anew for a retry: that would spend the person's budget again. What arrives twice carries the same
id, and the collector counts it once. Network errors, 408, 429 and 5xx are retried with growing pauses; any other answer
stops the upload with the server's own reason (an RFC 9457 problem document). Standard library only.
"""

from __future__ import annotations

import http.client
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from itertools import groupby
from urllib.parse import urlsplit

from taskveil.errors import UploadError
from taskveil.wire import BINARY, PROBLEM, ProblemDocument, Report, pack_batch

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
        timeout: seconds that one attempt may take.
        pause: the n-th retry of a batch waits about pause · 2ⁿ seconds, or what the server asks for in Retry-After.
        sleep: how to wait.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise UploadError(f"reports are sent over https only, got {url!r}.")
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
            with _opener(url).open(request, timeout=timeout) as answer:
                answer.read(_READ_AT_MOST)
                return
        except urllib.error.HTTPError as error:
            with error:
                problem = ProblemDocument.from_json(_rest(error), status=error.code)
            reason, status = str(problem), error.code
            if error.code not in _RETRIED and error.code < 500:
                raise UploadError(
                    f"the collector refused the reports ({error.code}): {problem}", sent=sent, status=error.code
                ) from error
            wait = max(wait, _asked(error))
        except (OSError, http.client.HTTPException) as error:  # no connection, reset, timeout, half an answer
            reason, status = repr(error), None
    raise UploadError(
        f"the reports were not accepted after {attempts} attempts (last: {reason}). Send the same reports again later.",
        sent=sent,
        status=status,
    )


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
