"""Tokens that are wrong in every way: 401 or 403 for each, and no row."""

from __future__ import annotations

import time
from pathlib import Path

from faults.harness import Collector, Release, Row, add_token
from faults.sending import Answer, Maker, body_of
from faults.stored import Database
from taskveil.client import wire
from taskveil.client.wire import PROBLEM
from taskveil.collector.store import open_store


def access(folder: Path, database: Database, *, rounds: int = 3) -> Row:
    """Every endpoint that takes a token with every token that must not open it; then with one that does."""
    ours, other = Release(folder / "ours"), Release(folder / "other", seed=1)
    collector = Collector(folder, database, [ours, other])
    collector.register()
    tokens = {
        "upload": add_token(database, "upload"),
        "read": add_token(database, "read"),
        "admin": add_token(database, "admin"),
        "upload of another release": add_token(database, "upload", release=other.id),
        "read of another release": add_token(database, "read", release=other.id),
        "admin of another release": add_token(database, "admin", release=other.id),
        "expired": add_token(database, "admin", days=0.2 / 86400),
        "revoked": add_token(database, "admin"),
    }
    maker = Maker(ours.veil)
    report = body_of(maker.reports(1))
    sending = {"body": report, "type": wire.BINARY}
    asked = {
        ("POST", wire.PATH): ("upload", sending),
        ("GET", "/v1/releases"): ("read", {}),
        ("GET", f"/v1/estimates?release={ours.id}"): ("read", {}),
        ("GET", f"/v1/export?release={ours.id}"): ("read", {}),
        ("GET", f"/v1/releases/{ours.id}/frontier"): ("read", {}),
        ("POST", f"/v1/releases/{ours.id}/close"): ("admin", {}),
        ("POST", f"/v1/releases/{ours.id}/open"): ("admin", {}),
        ("PUT", f"/v1/releases/{ours.id}/rounds/second"): ("admin", {}),
        ("POST", f"/v1/releases/{ours.id}/rounds/first/close"): ("admin", {}),
        ("DELETE", f"/v1/releases/{ours.id}/rounds/first?confirm=first"): ("admin", {}),
    }
    complaints, refused, wrongs = [], 0, _wrong(tokens)
    with collector.running():
        store = open_store(database.url)
        before = store.releases()
        (revoked,) = (token.name for token in store.tokens() if token.key == tokens["revoked"].split("_")[1])
        store.revoke_token(revoked)
        time.sleep(1.5)  # the collector follows within a second; the other one expires
        for _ in range(rounds):
            for (method, path), (scope, options) in asked.items():
                for name, header in (wrongs | _too_little(tokens, scope, path)).items():
                    headers = {} if header is None else {"Authorization": header}
                    answer = collector.ask(method, path, **options, **headers)
                    refused += 1
                    complaints += _judged(answer, f"{method} {path.replace(ours.id, '…')} with {name}")
        if database.rows() or store.releases() != before:
            complaints.append("a refused request left something behind")
        store.close()
        taken = collector.ask("POST", wire.PATH, token=tokens["upload"], **sending)
        if taken.status != 200 or len(database.rows()) != 1:
            complaints.append(f"the right token was refused with {taken.status}: this test proves nothing")
    return Row(
        name=f"tokens, {database.kind}",
        done=f"{len(asked)} endpoints × {len(wrongs)} wrong, missing, expired, revoked tokens and those of other "
        f"scopes and releases × {rounds}",
        counts={"refused": refused - len(complaints), "let through": len(complaints)},
        complaints=complaints,
    )


def _wrong(tokens: dict[str, str]) -> dict[str, str | None]:
    """Headers that open nothing anywhere."""
    right = tokens["admin"]
    key, secret = right.split("_")[1:]
    return {
        "no token": None,
        "an empty header": "",
        "no secret": f"Bearer tv_{key}",
        "an empty secret": f"Bearer tv_{key}_",
        "another secret": f"Bearer tv_{key}_{'0' * len(secret)}",
        "a secret with one digit changed": f"Bearer tv_{key}_{secret[:-1]}{'0' if secret[-1] != '0' else '1'}",
        "a secret cut short": f"Bearer tv_{key}_{secret[:-1]}",
        "a secret with more behind": f"Bearer tv_{key}_{secret}0",
        "the secret of another token": f"Bearer tv_{key}_{tokens['upload'].split('_')[2]}",
        "another scheme": f"Basic {right}",
        "no scheme": right,
        "two tokens": f"Bearer {right} {right}",
        "letters beyond ASCII": "Bearer tv_é_ÿ",
        "6,000 letters": "Bearer tv_" + "a" * 6000,
        "an expired token": f"Bearer {tokens['expired']}",
        "a revoked token": f"Bearer {tokens['revoked']}",
    }


def _too_little(tokens: dict[str, str], scope: str, path: str) -> dict[str, str | None]:
    """Tokens that are good elsewhere."""
    scopes = {"upload", "read"} - {scope}
    found = {f"a token of scope {name}": f"Bearer {tokens[name]}" for name in scopes}
    if path != "/v1/releases":  # the list shows a token's own release only
        kinds = {scope, "admin"}
        found |= {f"{kind} of another release": f"Bearer {tokens[f'{kind} of another release']}" for kind in kinds}
    return dict(found)


def _judged(answer: Answer, what: str) -> list[str]:
    wrong = []
    if answer.status not in (401, 403):
        wrong.append(f"{what}: {answer.status}")
    elif answer.header("content-type") != PROBLEM:
        wrong.append(f"{what}: {answer.status} is no problem document")
    elif answer.status == 401 and answer.header("www-authenticate") is None:
        wrong.append(f"{what}: 401 without WWW-Authenticate")
    return wrong
