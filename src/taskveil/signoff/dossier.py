"""`tv.dossier`: the page for the person who decides, as HTML, PDF and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

from taskveil.auditing import Audit, FamilyAudit
from taskveil.errors import DataError
from taskveil.notebooks import summary
from taskveil.signoff.evidence import audited, opened
from taskveil.signoff.facts import content_of
from taskveil.signoff.odds import budget
from taskveil.signoff.page import page
from taskveil.signoff.printing import print_page
from taskveil.sweeps.frontier import written
from taskveil.veil import Family, Veil


@dataclass(frozen=True, eq=False)
class Dossier:
    """What must be known about a release before data is collected with it. `content` is plain data, from which the
    page and the JSON file are made.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> made = tv.dossier(veil, rounds=2, people=1000)
        >>> round(made.content["total"]["epsilon"], 3), made.html().startswith("<!doctype html>")
        (4.0, True)
    """

    content: dict[str, Any]

    def __repr__(self) -> str:
        total = self.content["total"]["epsilon"]
        planned = "rounds not stated" if total is None else f"{budget(total)} in total"
        promise = budget(self.content["promise"]["epsilon"])
        return f"<Dossier of {self.content['release']['id'][:12]}…: {promise} a report, {planned}>"

    def html(self) -> str:
        """The page as text: one file with everything inside, without scripts."""
        return page(self.content)

    def to_html(self, path: str | Path) -> Path:
        """The path of the page, which is written there."""
        return written(path, self.html().encode())

    def to_pdf(self, path: str | Path) -> Path:
        """The path of the page as PDF, on A4. It needs Chromium or Chrome on this machine."""
        return print_page(self.html(), Path(path))

    def to_json(self, path: str | Path | None = None) -> str:
        """The content as JSON; written to `path`, if there is one."""
        text = json.dumps(self.content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            written(path, text.encode())
        return text

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        release, promise, total, audit = (self.content[name] for name in ("release", "promise", "total", "audit"))
        rows = [
            ["Release", f"{release['id'][:12]}…"],
            ["Signature", release["signature"]["words"]],
            ["Audit", "None." if audit is None else f"{audit['verdict']} ({audit['date']})"],
        ]
        return summary("Dossier; .to_html(path) writes all of it", [promise["words"], total["words"]], rows=rows)


def dossier(
    release: Veil | Family | str | Path,
    *,
    rounds: int | None = None,
    people: int | None = None,
    cap: float | None = None,
    audit: Audit | FamilyAudit | Mapping[str, Any] | str | Path | None = None,
    verify_key: str | Path | bytes | None = None,
    title: str | None = None,
    purpose: str | None = None,
    stored: str | None = None,
    retention: str | None = None,
    utility: str | None = None,
) -> Dossier:
    """The dossier of a release or a family: what to know before people are asked for reports. Texts that are not given
    appear as "not stated".

    Args:
        release: a Veil, a Family, or the folder of one. Only a folder shows whether the release is signed.
        rounds: how often each person is asked for a report. A release over time says it itself.
        people: how many people will report in a round; of a release over time, how many take part.
        cap: the largest ε that devices will spend (`Client.load(cap=)`).
        audit: the result of `tv.audit`, or the file that `taskveil audit --json` wrote. An audit of another release is
            an AuditError.
        verify_key: PEM file with a public key, or its bytes; the folder must be signed by it.
        title: of the page; by default the name of the folder.
        purpose: what the data is for.
        stored: what is stored beyond what taskveil's collector stores.
        retention: how long reports are kept.
        utility: what results are expected, if you have measured it.

    >>> import numpy as np
    >>> import taskveil as tv
    >>> volunteers = np.random.default_rng(0).random((200, 2))
    >>> veil = tv.design(volunteers, tv.MeanTask(np.eye(2)), epsilon=0.5, domain=tv.Box([0, 0], [1, 1]))
    >>> page = tv.dossier(veil, rounds=4, people=40_000, purpose="Mean load per district.")
    >>> page.content["total"]["epsilon"] == tv.compose([tv.Cost.of(veil, times=4)]).epsilon
    True
    >>> [line["text"] for line in page.content["checklist"] if line["holds"] is False][:1]
    ['It is stated how long reports are kept.']
    """
    for name, count in (("rounds", rounds), ("people", people)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, Integral) or count < 1):
            raise DataError(f"{name} is a whole number of 1 or more, got {count!r}.")
        if count is not None and count > 2**53:  # doubles hold no larger whole numbers, nor does JSON in browsers
            raise DataError(f"{name} must be 2^53 at most.")
    found, named, signature = opened(release, verify_key)
    texts = {"title": named if title is None else title, "purpose": purpose, "stored": stored}
    texts |= {"retention": retention, "utility": utility}
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise DataError(f"{name} is a text, or left out.")
    return Dossier(
        content_of(
            found,
            signature,
            audited(audit, found),
            texts,
            rounds=None if rounds is None else int(rounds),
            people=None if people is None else int(people),
            cap=cap,
            date=datetime.now(UTC).date().isoformat(),
        )
    )
