"""Who may do what: only the right secret, in time, for what it is for; and nothing shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, cast

import pytest

from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Store, StoredToken
from taskveil.collector.tokens import Scope, Tokens, belongs, new_token
from taskveil.errors import DataError

ONE, OTHER = "1" * 64, "2" * 64


class Kept:
    """A store that has nothing but tokens."""

    def __init__(self, *tokens: StoredToken) -> None:
        self.kept = tokens

    def tokens(self) -> tuple[StoredToken, ...]:
        return self.kept

    def becomes(self, *tokens: StoredToken) -> None:
        self.kept = tokens


def tokens_of(*kept: StoredToken) -> Tokens:
    return Tokens(cast(Store, Kept(*kept)))


def refused(tokens: Tokens, header: str | None, scope: Scope = "read") -> ProblemType:
    with pytest.raises(ProblemError) as error:
        tokens.granted(header, scope)
    return error.value.problem


def test_a_token_is_its_key_and_its_secret_and_the_secret_is_not_kept() -> None:
    text, kept = new_token("upload", "phones", release=ONE, days=2, rate=5.0)
    assert re.fullmatch(rf"tv_{kept.key}_[0-9a-f]{{64}}", text)
    secret = text.split("_")[2]
    assert kept.digest == sha256(secret.encode()).digest()
    assert secret not in repr(kept)
    assert kept.expires is not None
    assert kept.expires.tzinfo == UTC
    assert timedelta(days=1.99) < kept.expires - datetime.now(UTC) <= timedelta(days=2)
    assert len({new_token("read", "a")[0] for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "all"},
        {"name": ""},
        {"name": " a"},
        {"name": "a\nb"},
        {"name": "a" * 101},
        {"days": 0},
        {"days": float("nan")},
        {"rate": 0.0},
        {"rate": float("inf")},
    ],
)
def test_what_makes_no_token_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        new_token(**{"scope": "read", "name": "page"} | wrong)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
def test_the_right_secret_is_let_in(scheme: str) -> None:
    (_, first), (text, kept) = new_token("read", "first"), new_token("read", "page")
    assert tokens_of(first, kept).granted(scheme + text, "read") == kept


def test_any_other_text_is_not() -> None:
    text, kept = new_token("admin", "me")
    other, _ = new_token("admin", "me")
    tokens = tokens_of(kept)
    assert refused(tokens, None) is refused(tokens, "") is ProblemType.TOKEN_MISSING
    key, secret = text.split("_")[1:]
    wrong = [
        f"Bearer {other}",
        f"Bearer tv_{key}_{other.split('_')[2]}",
        f"Bearer {text[:-1]}",
        f"Bearer {text}0",
        f"Bearer {text.upper()}",
        f"Bearer tv_{key}_{kept.digest.hex()}",
        f"Bearer tv__{secret}",
        f"Basic {text}",
        text,
        "Bearer",
        "Bearer é\x00",
        "Bearer tv_" + "0" * 16 + "_" + "0" * 64,
        "x" * 100_000,
    ]
    assert {refused(tokens, header) for header in wrong} == {ProblemType.TOKEN_UNKNOWN}


def test_an_expired_one_is_not() -> None:
    text, kept = new_token("read", "page", days=1)
    late = replace(kept, expires=datetime.now(UTC) - timedelta(seconds=1))
    assert refused(tokens_of(late), f"Bearer {text}") is ProblemType.TOKEN_EXPIRED
    assert tokens_of(kept).granted(f"Bearer {text}", "read") == kept


@pytest.mark.parametrize(
    ("scope", "allowed"), [("upload", {"upload"}), ("read", {"read"}), ("admin", {"upload", "read", "admin"})]
)
def test_scopes_are_apart_and_admin_is_all(scope: Scope, allowed: set[str]) -> None:
    text, kept = new_token(scope, "some")
    tokens = tokens_of(kept)
    asked: list[Scope] = ["upload", "read", "admin"]
    for one in asked:
        if one in allowed:
            assert tokens.granted(f"Bearer {text}", one) == kept
        else:
            assert refused(tokens, f"Bearer {text}", one) is ProblemType.TOKEN_WRONG_SCOPE


def test_a_token_of_one_release_is_for_no_other() -> None:
    text, kept = new_token("admin", "some", release=ONE)
    tokens = tokens_of(kept)
    token = tokens.granted(f"Bearer {text}", "upload")  # the release is in a body that has not come yet
    assert token == kept
    belongs(token, ONE)
    for other in (OTHER, None):
        with pytest.raises(ProblemError) as error:
            belongs(token, other)
        assert error.value.problem is ProblemType.TOKEN_OTHER_RELEASE
    belongs(replace(token, release=None), OTHER)


def test_what_is_revoked_or_made_while_serving_is_followed() -> None:
    (old_text, old), (new_text, new) = new_token("read", "old"), new_token("read", "new")
    store = Kept(old)
    tokens = Tokens(cast(Store, store))
    assert tokens.granted(f"Bearer {old_text}", "read") == old
    store.becomes(new)
    tokens.refresh()
    assert refused(tokens, f"Bearer {old_text}") is ProblemType.TOKEN_UNKNOWN
    assert tokens.granted(f"Bearer {new_text}", "read") == new


def test_no_error_shows_the_token() -> None:
    text, kept = new_token("read", "page", release=ONE)
    late = replace(kept, expires=datetime.now(UTC) - timedelta(seconds=1))
    for tokens, scope in [(tokens_of(), "read"), (tokens_of(late), "read"), (tokens_of(kept), "admin")]:
        with pytest.raises(ProblemError) as error:
            tokens.granted(f"Bearer {text}", cast(Scope, scope))
        said = f"{error.value!r} {error.value} {error.value.detail} {error.value.problem.document().to_json()!r}"
        assert not {part for part in text.split("_")[1:] if part in said}
