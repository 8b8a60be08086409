"""Sending reports in batches, with retries that always send the same bytes.

A report is never made again for a retry: that would spend the person's budget again. A report that arrives twice
carries the same id, and the collector counts it once. Network errors, 408, 429 and 5xx are retried with growing pauses,
and so is an answer of success that is not the collector's, or whose numbers do not add up to the reports that were
sent. Any other answer stops the upload with the server's reason (an RFC 9457 problem document). A collector may reject
single reports of a batch and accept the others. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from taskveil.client.locking import in_thread
from taskveil.client.values import LONGEST_TEXT
from taskveil.client.wire import BINARY, MOST_POSTED, PROBLEM, ProblemDocument, Report, pack_batch
from taskveil.errors import UploadError

_LOCAL = ("127.0.0.1", "::1", "localhost")
_LONGEST_PAUSE = 60.0
_RETRIED = (408, 429)  # too slow, too many requests: try again later, as after a failure of the server
_MOST_ANSWER = MOST_POSTED * LONGEST_TEXT  # bytes that are read of an answer: a reason for every report
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

    Example:
        >>> from taskveil.client import upload
        >>> upload([], "https://collector.example/v1/reports")  # without reports nothing is sent
        0
    """
    if type(batch) is not int or not 1 <= batch <= MOST_POSTED or type(attempts) is not int or attempts < 1:
        raise UploadError(
            f"batch and attempts are whole numbers of at least 1, and a batch has {MOST_POSTED:,} reports at most. "
            "Nothing was sent."
        )
    if not all(isinstance(n, int | float) and 0 <= n < 2**31 / 1000 for n in (timeout, pause)):  # as in browsers
        raise UploadError("timeout and pause are seconds, not negative and below 25 days. Nothing was sent.")
    shown = "an address with a name or password (not shown)" if "@" in repr(url) else repr(url)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # a label of more than 63 characters is no name
        named = bool(host) and parts.port != 0 and parts.username is None
        written = parts._replace(netloc="").geturl().isascii() and url.isprintable() and " " not in url
    except (ValueError, TypeError, AttributeError):
        raise UploadError(
            f"{shown} is no address such as https://collector.example/v1/reports. Nothing was sent."
        ) from None
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise UploadError(f"reports are sent over https only, got {shown}.")
    if not (named and written):
        raise UploadError(
            f"the address must name a server and no user, and other letters than ASCII must be written as %XX; got "
            f"{shown}. Nothing was sent."
        )
    if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
        raise UploadError("the token must be one word of letters, digits and ._~+/-. Nothing was sent.")
    send = partial(_send, url=url, token=token, attempts=attempts, timeout=timeout, pause=pause, sleep=sleep)
    done, rejected = 0, dict[int, str]()
    for _, same in groupby(reports, key=lambda report: (report.release, len(report.payload))):
        waiting = list(same)  # a batch carries reports of one release; all are sent in their order
        for start in range(0, len(waiting), batch):
            chunk = waiting[start : start + batch]
            try:
                answer = send(pack_batch(chunk), len(chunk))
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


def _send(
    body: bytes,
    count: int,
    *,
    url: str,
    token: str | None,
    attempts: int,
    timeout: float,
    pause: float,
    sleep: Callable[[float], object],
) -> dict[int, str]:
    """The places of rejected reports in a batch of `count`, with the reasons; UploadError if none arrived."""
    headers = {"Content-Type": BINARY, "Accept": f"application/json, {PROBLEM}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    reason, status, wait = "no attempt was made", None, 0.0
    for attempt in range(attempts):
        if attempt:
            sleep(wait)
        wait = min(pause * secrets.SystemRandom().uniform(0.5, 1.0), _LONGEST_PAUSE)
        pause = min(2 * pause, _LONGEST_PAUSE)
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310
        try:
            # A socket's own timeout starts again with every byte. An attempt that takes too long ends by itself later.
            # It may still succeed: a report that arrives twice is counted once.
            status, answer, asked = in_thread(partial(_attempt, request, timeout)).result(timeout=timeout)
        except Exception as error:  # no connection, reset, timeout, half an answer, or one that http.client trips over
            reason, status = _shown(repr(error), token) if error.args else f"no answer within {timeout:g} seconds", None
            continue
        if 200 <= status < 300:
            rejected = _rejected(answer, count)
            if rejected is not None:
                return {place: _shown(why, token) for place, why in rejected.items()}
            reason = f"an answer that does not say what became of {count} reports; another server's, or half of one"
            continue
        reason = _shown(str(ProblemDocument.from_json(answer, status=status)), token)
        if status not in _RETRIED and status < 500:
            raise UploadError(f"the collector refused the reports ({status}): {reason}", status=status)
        wait = max(wait, asked)
    raise UploadError(
        f"the reports were not accepted after {attempts} attempts (last: {reason}). Send the same reports again later.",
        status=status,
    )


def _shown(words: str, token: str | None) -> str:
    """The server's words without the token, in case it quotes it, and without codes that a terminal would obey."""
    hidden = words if token is None else words.replace(token, "…")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in hidden[:LONGEST_TEXT])


def _attempt(request: urllib.request.Request, timeout: float) -> tuple[int, bytes, float]:
    """The status of the answer, its body, and the seconds that the server asks to wait."""
    try:
        with _opener(request.full_url).open(request, timeout=timeout) as answer:
            return answer.status, answer.read(_MOST_ANSWER), 0.0
    except urllib.error.HTTPError as error:
        said, asked = b"", 0.0
        with error:
            with contextlib.suppress(Exception):  # half of it: the status must do
                said = error.read(_MOST_ANSWER)
            with contextlib.suppress(ValueError):
                asked = min(max(float(error.headers.get("Retry-After", "0")), 0.0), _LONGEST_PAUSE)
        return error.code, said, asked


def _rejected(answer: bytes, count: int) -> dict[int, str] | None:
    """The places (0 … count − 1) that a collector's answer to `count` reports rejects, in order, with the reasons.

    None if it is not a collector's answer, or if accepted, duplicate and rejected reports do not add up to `count`: a
    proxy's page or an empty body says nothing about the reports. JSON is read as browsers read it: UTF-8, every number
    a double, no NaN.
    """
    try:
        said: Any = json.loads(answer.decode("utf-8-sig", "replace"), parse_int=float, parse_constant=int)
        accepted, duplicate, listed = said["accepted"], said["duplicate"], said["rejected"]
        reasons = ((one["place"], one.get("reason")) for one in listed)
        found = {place: why if why and isinstance(why, str) else "none was given." for place, why in reasons}
        sound = all(type(n) is float and 0 <= n <= count and n % 1 == 0 for n in (accepted, duplicate, *found))
        sound = sound and isinstance(listed, list) and count not in found
        sound = sound and len(found) == len(listed) == count - accepted - duplicate
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return {int(place): found[place] for place in sorted(found)} if sound else None


def _opener(url: str) -> urllib.request.OpenerDirector:
    """An opener that follows no redirect, which would turn POST into GET. Uses no proxy for this machine itself."""
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    if urlsplit(url).hostname in _LOCAL:
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None
