"""The audit of a family: each member by itself, and whether the member is drawn without the record.

The guarantee of a family rests on its members' guarantees and on one fact more: which member reports is drawn from
entropy and the weights alone. Two checks try to disprove this fact, on a `Client` with a ledger:

- With the same entropy, all records must get a report of the same member. A draw that looks at the record fails this
  for some entropy, however small the difference is on average.
- With fresh entropy, every record must get each member as often as its weight says (exact binomial limits). A client
  that takes its draws from somewhere else fails this.

A third check adds up what the ledger charged: at least the largest ε of the members for every round. If rounds are
planned, the reports of all rounds are attacked as those of one release are (`over_time`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from taskveil.arrays import Array
from taskveil.auditing.attack import audit
from taskveil.auditing.bound import at_least, at_most
from taskveil.auditing.over_time import over_time_checks
from taskveil.auditing.pairs import hostile_records
from taskveil.auditing.result import Audit, html_of, rows_of
from taskveil.auditing.target import ALPHA, Check, Target
from taskveil.client import Client, Ledger, Report, entropy
from taskveil.client.families import CHOSEN
from taskveil.notebooks import frame
from taskveil.veil import Family

Progress = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyAudit:
    """The audits of all members, and the checks of what they share. The verdict is the worst of them.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> of_two = tv.Family.of_budgets({e: tv.design(X, tv.MeanTask(), epsilon=e) for e in (1.0, 2.0)})
        >>> found = tv.audit(of_two, trials=2000, structural=False)
        >>> list(found.members), found.passed
        (['1', '2'], True)
    """

    members: dict[str, Audit]
    checks: tuple[Check, ...]
    epsilon_claimed: float
    """The family's ε: the largest of its members."""
    release: str
    """The id of the family."""

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound of a member."""
        return max(one.epsilon_lower for one in self.members.values())

    @property
    def passed(self) -> bool:
        """Whether nothing found contradicts a member's claim or the independence of the draw."""
        return all(one.passed for one in self.members.values()) and all(check.passed for check in self.checks)

    @property
    def verdict(self) -> str:
        """The outcome in a sentence: of a check that broke, else of the member that did worst."""
        broken = [check for check in self.checks if not check.passed]
        if broken:
            return f"BROKEN. {broken[0].detail} Do not release this."
        name, worst = max(
            self.members.items(), key=lambda one: (not one[1].passed, one[1].epsilon_lower / one[1].epsilon_claimed)
        )
        held = sum(check.outcome == "held" for check in self.checks)
        more = f" {held} checks of the family held." if worst.passed else ""
        return f"{worst.verdict} (member {name}, the worst of {len(self.members)}){more}"

    @property
    def title(self) -> str:
        """What the table of the audit is called."""
        return f"Audit of a family of ε = {self.epsilon_claimed:.4g}"

    def rows(self) -> list[dict[str, str | bool]]:
        """One row per member, then one per check of the family, as in `Audit.rows`."""
        members = self.members.items()
        found: list[dict[str, str | bool]] = [
            {"tried": name, "seen": one.verdict, "outcome": f"ε ≥ {one.epsilon_lower:.4g}", "held": one.passed}
            for name, one in members
        ]
        return [*found, *rows_of(self.checks)]

    def to_pandas(self) -> Any:
        """A DataFrame of `rows`."""
        return frame(self.rows())

    def _repr_html_(self) -> str:
        return html_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the sketches, ready for JSON. Trials and confidence are those of every member."""
        first = next(iter(self.members.values()))
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_claimed": self.epsilon_claimed,
            "confidence": first.confidence,
            "trials": first.trials,
            "release": self.release,
            "date": first.date,
            "checks": [{"name": one.name, "outcome": one.outcome, "detail": one.detail} for one in self.checks],
            "members": {name: one.to_dict() for name, one in self.members.items()},
        }


def audit_family(family: Family, *, structural: bool, progress: Progress | None, **rest: Any) -> FamilyAudit:
    """The audit of a family; the other arguments are those of `audit`, which are the same for every member."""
    tell, parts = progress or (lambda _what, _share: None), len(family.members)
    found = {}
    for place, (name, veil) in enumerate(family.members.items()):
        tell(f"{name}: begins", place / (parts + 1))

        def within(what: str, share: float, name: str = name, place: int = place) -> None:
            tell(f"{name}: {what}", (place + share) / (parts + 1))

        found[name] = audit(veil, structural=structural, over_time=False, progress=within, **rest)
    tell("the draw of the members", parts / (parts + 1))
    checks = family_checks(family, rest["trials"]) if structural else ()
    tell("done", 1.0)
    return FamilyAudit(members=found, checks=checks, epsilon_claimed=family.epsilon, release=family.release_id)


def family_checks(family: Family, trials: int) -> tuple[Check, ...]:
    """Checks of what the members share. A false alarm has probability 1e-9 at most in each.

    Args:
        family: what is audited.
        trials: of the audit; there are fewer reports when it has few.
    """
    first, second = "drawn without the record", "drawn as often as the weights say"
    if family.kind == CHOSEN:
        why = "people choose the member. The choice is visible, and must not depend on the record."
        skipped = (Check.not_applicable(first, why), Check.not_applicable(second, why))
        return (*skipped, _charged(family), *_over_time(family, trials))
    rounds = min(200, max(50, trials // 5_000))
    records = _records(family, np.random.default_rng(21))
    checks = _same_draw(first, family, records, rounds), _weights(second, family, records, rounds), _charged(family)
    return (*checks, *_over_time(family, trials))


def _over_time(family: Family, trials: int) -> tuple[Check, ...]:
    target = Target.of(next(iter(family.members.values())), epsilon=None, delta=0.0, records=None)
    ends = target.low.tolist(), target.high.tolist()
    if target.natural is not None:
        first, second = ([values[place] for values in target.natural.ordinary] for place in (0, -1))
        ends = first, second
    return over_time_checks(family.device, ends, trials)


def _records(family: Family, rng: np.random.Generator) -> list[Any]:
    """Ordinary and hostile records that a client takes, in the fields' order."""
    target = Target.of(next(iter(family.members.values())), epsilon=None, delta=0.0, records=None)
    if target.natural is not None:
        return [list(row) for row in target.natural.draw(rng, 12)]
    edges = [target.low, target.high, target.middle]
    return [row.tolist() for row in (*edges, *hostile_records(target.low, target.high, rng, 9))]


@contextlib.contextmanager
def _client(family: Family) -> Iterator[Client]:
    memory = "/dev/shm"  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        # Members are drawn in the same way in every round, so every round gets a report here.
        members = [replace(one, device=replace(one.device, panel=None)) for one in family.device.members]
        device = replace(family.device, members=tuple(members))
        choice = min(float(name) for name in family.members) if family.kind == CHOSEN else None
        ledger, first = Ledger(Path(folder) / "ledger.sqlite"), device.members[0]
        with Client(
            device=first.device, release=first.release, ledger=ledger, cap=1e300, family=device, epsilon=choice
        ) as client:
            yield client


def _same_draw(name: str, family: Family, records: list[Any], seeds: int) -> Check:
    """Whether all records get a report of the same member if the entropy is the same."""
    real = entropy.system_bytes
    try:
        with _client(family) as client:
            for seed in range(seeds):
                seen = set()
                for place, record in enumerate(records):
                    entropy.system_bytes = np.random.default_rng([22, seed]).bytes
                    seen.add(cast(Report, client.report(record, round=f"{seed}/{place}")).release)
                if len(seen) > 1:
                    detail = "With the same entropy, different records get reports of different members."
                    return Check.of(name, detail, held=False)
    finally:
        entropy.system_bytes = real
    detail = f"{len(records)} records got reports of the same member in each of {seeds} draws with the same entropy."
    return Check.of(name, detail, held=True)


def _weights(name: str, family: Family, records: list[Any], rounds: int) -> Check:
    """Whether every record gets each member as often as its weight says."""
    total, releases = sum(family.weights.values()), [bytes.fromhex(one.release_id) for one in family.members.values()]
    alpha, counts = ALPHA / (2 * len(records) * len(releases)), np.zeros((len(records), len(releases)), dtype=np.int64)
    with _client(family) as client:
        for place, record in enumerate(records):
            for turn in range(rounds):
                report = cast(Report, client.report(record, round=f"{place}/{turn}"))
                counts[place, releases.index(report.release)] += 1
    shares = np.array([weight / total for weight in family.weights.values()])
    low, high = (_limits(end, counts, rounds, alpha) for end in (at_least, at_most))
    if ((low > shares) | (high < shares)).any():
        place, member = np.argwhere((low > shares) | (high < shares))[0].tolist()
        drawn, wanted = counts[place, member], f"{100 * shares[member]:.3g}%"
        detail = f"Member {list(family.members)[member]} was drawn {drawn} times in {rounds} instead of {wanted}."
        return Check.of(name, detail, held=False)
    detail = f"{len(records)} records: {rounds} draws each agree with the weights."
    return Check.of(name, detail, held=True)


def _limits(end: Callable[..., Any], counts: Array, rounds: int, alpha: float) -> Array:
    return np.array([[float(end(count, rounds, alpha)) for count in row] for row in counts.tolist()])


def _charged(family: Family) -> Check:
    """Whether a round costs at least the ε of the members that it may use."""
    name, rounds = "charged in full", 4
    with _client(family) as client:
        record = [0.0] * client.device.attributes
        for turn in range(rounds):
            client.report(record, round=turn)
        spent, members = client.ledger.spent, [one.mechanism.epsilon for one in family.members.values()]
    due = rounds * (min(members) if family.kind == CHOSEN else max(members))
    held = spent >= due * (1 - 1e-12)
    return Check.of(name, f"{rounds} rounds cost ε = {spent:.6g} in the ledger; they are worth {due:.6g}.", held=held)
