"""Tokens: how they are made, stored as digests, and checked with each request; and the rate limit of each.

A token is `tv_<key>_<secret>`. The public key finds it. Of the secret, 256 random bits, only the SHA-256 is stored.
There are three scopes: "upload" sends reports, "read" sees estimates and exports, "admin" does both and opens, closes
and deletes rounds. A token may be for one release, and it may expire.

The text of a token is shown once, when it is made. It is in no error, log or `repr`.
"""

from __future__ import annotations

import hmac
import math
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal, get_args

from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Store, StoredToken
from taskveil.errors import DataError

Scope = Literal["upload", "read", "admin"]

AUTHENTICATE = {"WWW-Authenticate": "Bearer"}
"""The header of each answer with status 401."""

BURST_SECONDS = 5.0
"""A sender that was quiet may send this many seconds of its rate at once."""

_BEARER = re.compile(r"(?i:bearer) +tv_([0-9a-f]{16})_([0-9a-f]{64})")
_NAME = re.compile(r"[\w.@:+/ -]{1,100}")
_NOBODY = StoredToken(
    name="", key="", digest=bytes(32), scope="upload", release=None, expires=datetime.min.replace(tzinfo=UTC), rate=None
)
"""An unknown key is compared with this, so that the time of an answer does not show which keys exist. No secret has
this digest."""


def new_token(
    scope: Scope, name: str, *, release: str | None = None, days: float | None = None, rate: float | None = None
) -> tuple[str, StoredToken]:
    """A token's text, to be shown once, and the token without its secret (for `Store.add_token`).

    Args:
        scope: "upload", "read" or "admin".
        name: to list and revoke it.
        release: the id of the one release it is for; None for all.
        days: until it expires; None for never.
        rate: at most so many reports (for other scopes, requests) a second; None for the collector's default.

    A wrong argument is a DataError.
    """
    if scope not in get_args(Scope):
        raise DataError(f"a token's scope is one of {', '.join(get_args(Scope))}.")
    if not _NAME.fullmatch(name) or name != name.strip():
        raise DataError("a token's name has 1 to 100 letters, digits, spaces and . _ - @ : + /.")
    if days is not None and not 0 < days <= 36_500:
        raise DataError("a token is valid for more than 0 and at most 36,500 days; leave the number out for no limit.")
    if rate is not None and not 0 < rate < float("inf"):
        raise DataError("a token's rate is a number of reports a second above 0.")
    key, secret = secrets.token_hex(8), secrets.token_hex(32)
    kept = StoredToken(
        name=name,
        key=key,
        digest=_digest(secret),
        scope=scope,
        release=release,
        expires=None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days),
        rate=rate,
    )
    return f"tv_{key}_{secret}", kept


class Tokens:
    """The tokens of a store. Call `refresh` when the store has changed, so that a revoked token stops working."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, StoredToken] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the tokens again. Blocks: call it in a thread."""
        self._found = {token.key: token for token in self._store.tokens()}

    def uploads_expire(self, release: str | None) -> datetime | None:
        """When the next valid upload token of this release (None: of any) expires; None for never."""
        ends = [
            one.expires
            for one in self._found.values()
            if one.scope == "upload" and (release is None or one.release in (None, release)) and one.expires is not None
        ]
        return min((end for end in ends if end > datetime.now(UTC)), default=None)

    def granted(self, header: str | None, scope: Scope) -> StoredToken:
        """The token of a request, if it allows this for any release; otherwise a ProblemError.

        The caller then checks the release with `belongs`, or shows only `token.release`.

        Args:
            header: the request's `Authorization`, if it has one.
            scope: that the request needs.
        """
        token = self._known(header)
        if token.scope not in (scope, "admin"):
            raise ProblemError(
                ProblemType.TOKEN_WRONG_SCOPE,
                f"This needs a token of scope {scope if scope == 'admin' else f'{scope} or admin'}.",
            )
        return token

    def _known(self, header: str | None) -> StoredToken:
        """The token in a header, of any scope. Secrets are compared in constant time."""
        if not header:
            raise ProblemError(ProblemType.TOKEN_MISSING, "Send it in the header Authorization: Bearer tv_…")
        match = _BEARER.fullmatch(header.strip())
        key, secret = match.groups() if match else ("", "")
        token = self._found.get(key, _NOBODY)
        if not hmac.compare_digest(_digest(secret), token.digest) or token is _NOBODY:
            raise ProblemError(ProblemType.TOKEN_UNKNOWN, "It was not made here, was revoked, or is incomplete.")
        if token.expires is not None and token.expires <= datetime.now(UTC):
            raise ProblemError(ProblemType.TOKEN_EXPIRED, "Ask the operator of this collector for a new one.")
        return token


def belongs(token: StoredToken, release: str | None, family: str | None = None) -> None:
    """ProblemError unless the token is for this release or its `family`; with None, unless it is for all releases."""
    if token.release is not None and token.release not in {release, family}:
        raise ProblemError(ProblemType.TOKEN_OTHER_RELEASE, "Use a token of this release, or one for all releases.")


class Buckets:
    """Rate limits. A bucket fills at its rate and holds `BURST_SECONDS` of it. A sender whose bucket is not empty may
    send any number of reports at once. Then the bucket is in debt, and the sender must wait."""

    def __init__(self, *, rate: float, share: float = 1.0) -> None:
        """`rate` is for senders without a rate of their own. This process grants the `share` of each rate."""
        self._rate, self._share = rate, share
        self._levels: dict[str, tuple[float, float]] = {}
        """The level of the bucket of each token, and when it had this level."""

    def take(self, key: str, count: int, rate: float | None) -> None:
        """Count these reports (or requests) of the sender with this `key`. ProblemError if there were too many before.
        `rate` is the sender's own."""
        rate, now = (self._rate if rate is None else rate) * self._share, time.monotonic()
        if math.isinf(rate):
            return
        level, then = self._levels.get(key, (rate * BURST_SECONDS, now))
        level = min(level + rate * (now - then), rate * BURST_SECONDS)
        needed = min(1.0, rate * BURST_SECONDS)
        if level < needed:
            wait = math.ceil(min((needed - level) / rate, 2.0**31))
            raise ProblemError(ProblemType.TOO_MANY, "The rate is limited. Send it again later.", retry_after=wait)
        self._levels[key] = (level - count, now)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
