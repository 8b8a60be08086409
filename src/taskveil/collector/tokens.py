"""Who may do what: tokens are made here, kept as digests, and looked at with every request.

A token is `tv_<key>_<secret>`. The key is public and finds it; of the secret, 256 random bits, only the SHA-256 is
kept, which tells nobody what it was. Three scopes, apart from each other: "upload" sends reports, "read" sees what they
say; "admin" does both and opens, closes and forgets. A token may be for one release, and may expire.

The text of a token is shown once, when it is made, and appears in no error, log or `repr` afterwards. An answer of
status 401 carries `AUTHENTICATE`, as HTTP asks.
"""

from __future__ import annotations

import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal, get_args

from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.store import Store, StoredToken
from taskveil.errors import DataError

Scope = Literal["upload", "read", "admin"]

AUTHENTICATE = {"WWW-Authenticate": "Bearer"}
"""The header of every answer of status 401."""

_BEARER = re.compile(r"(?i:bearer) +tv_([0-9a-f]{16})_([0-9a-f]{64})")
_NAME = re.compile(r"[\w.@:+/ -]{1,100}")
_NOBODY = StoredToken(
    name="", key="", digest=bytes(32), scope="upload", release=None, expires=datetime.min.replace(tzinfo=UTC), rate=None
)
"""What an unknown key is compared with, so that time does not tell which keys there are. No secret has this digest."""


def new_token(
    scope: Scope, name: str, *, release: str | None = None, days: float | None = None, rate: float | None = None
) -> tuple[str, StoredToken]:
    """A token's text, to be shown once, and what to keep of it (`Store.add_token`).

    Args:
        scope: "upload", "read" or "admin".
        name: for people, to list and revoke it by.
        release: the id of the one release it is for; None for all.
        days: after which it expires; None for never.
        rate: reports (of other scopes, requests) a second at most; None for the collector's default.

    Returns:
        The text `tv_<key>_<secret>` and the token without its secret; a DataError for what makes no token.
    """
    if scope not in get_args(Scope):
        raise DataError(f"a token's scope is one of {', '.join(get_args(Scope))}.")
    if not _NAME.fullmatch(name) or name != name.strip():
        raise DataError("a token's name is 1 to 100 letters, digits, spaces and . _ - @ : + /, for you to know it by.")
    if days is not None and not 0 < days <= 36_500:
        raise DataError("a token lasts more than 0 days and at most 36,500; leave the number away for no end.")
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
    """The tokens of a store, as they are now: `refresh` once a second and a revoked one is worth nothing after that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version: int | None = None
        self._found: dict[str, StoredToken] = {}
        self.refresh()

    def refresh(self, version: int | None = None) -> None:
        """Read the tokens again if the store has changed. Blocks: call it in a thread.

        Args:
            version: what `Store.version` said just now, if the caller has asked already.
        """
        version = self._store.version() if version is None else version
        if version != self._version:
            self._found = {token.key: token for token in self._store.tokens()}
            self._version = version  # last: if the store fails, the next call tries again

    def granted(self, header: str | None, scope: Scope) -> StoredToken:
        """The token of a request, if it allows this of any release; else a ProblemError.

        The caller passes the release that it is asked of to `belongs`, or shows what is of `token.release` alone.

        Args:
            header: what the request has under `Authorization`, if anything.
            scope: what is asked for.
        """
        token = self._known(header)
        if token.scope not in (scope, "admin"):
            raise ProblemError(
                Problem.TOKEN_WRONG_SCOPE,
                f"This takes a token of scope {scope if scope == 'admin' else f'{scope} or admin'}.",
            )
        return token

    def _known(self, header: str | None) -> StoredToken:
        """The token that a header holds, whatever it allows. Secrets are compared in constant time."""
        if not header:
            raise ProblemError(Problem.TOKEN_MISSING, "Send it in the header Authorization: Bearer tv_…")
        match = _BEARER.fullmatch(header.strip())
        key, secret = match.groups() if match else ("", "")
        token = self._found.get(key, _NOBODY)
        if not hmac.compare_digest(_digest(secret), token.digest) or token is _NOBODY:
            raise ProblemError(Problem.TOKEN_UNKNOWN, "It was never made here, was revoked, or is cut short.")
        if token.expires is not None and token.expires <= datetime.now(UTC):
            raise ProblemError(Problem.TOKEN_EXPIRED, "Ask whoever runs this collector for a new one.")
        return token


def belongs(token: StoredToken, release: str | None) -> None:
    """A ProblemError unless the token is for this release; for None (all releases) unless it is for all."""
    if token.release is not None and token.release != release:
        raise ProblemError(Problem.TOKEN_OTHER_RELEASE, "Use a token of this release, or one for all releases.")


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
