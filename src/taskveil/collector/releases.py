"""The releases that a collector takes reports for: read from the store, and read again when the store changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.families import FAMILY, FAMILY_SIGNATURE, is_family, read_manifest
from taskveil.client.panels import Panel
from taskveil.client.promise import round_up, times_as_likely
from taskveil.client.reading import SERVER
from taskveil.client.values import LONGEST_TEXT
from taskveil.collector.journal import failed
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import SHOWN_ID_DIGITS, Store, StoredRelease, StoredRound
from taskveil.errors import DataError, ReleaseError, TaskveilError, printable
from taskveil.estimates.scores import Scores, scores_of
from taskveil.veil import Family, Veil
from taskveil.veil.family import all_files
from taskveil.veil.release import release_files

FRONTIER = "frontier.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenRelease:
    """A stored release with its veil."""

    stored: StoredRelease
    veil: Veil
    files: Mapping[str, bytes]
    """As in `Store.files`: "client/manifest.json" …"""
    scores: Scores | None
    """How its reports are counted; None if they allow no population estimate."""

    @property
    def panel(self) -> Panel | None:
        """The rounds that it plans; None if it plans none."""
        return self.veil.panel

    def round(self, name: str) -> StoredRound:
        """The round of that name, or a ProblemError."""
        for one in self.stored.rounds:
            if one.name == name:
                return one
        if self.panel is None:
            raise ProblemError(ProblemType.ROUND_UNKNOWN, "Its rounds are listed under /v1/releases.")
        if name in self.panel.places:
            raise ProblemError(ProblemType.ROUND_UNKNOWN, "It is planned, and the operator has not opened it yet.")
        raise ProblemError(ProblemType.ROUND_NOT_PLANNED, f"Devices report in {planned_words(self.panel)} only.")

    def taking(self, round: str | None = None) -> StoredRound:
        """The round of that name, or the current one, if it is open for reports; else a ProblemError."""
        found = self.round(self.stored.current if round is None else round)
        if not self.stored.open:
            raise ProblemError(ProblemType.RELEASE_CLOSED, "The operator of this collector closed it.")
        if not found.open:
            raise ProblemError(ProblemType.ROUND_CLOSED, "It has ended; its reports are counted.")
        return found

    def moments(self, numbers: Integers, fresh: Bools) -> Floats:
        """What the `fresh` (N,) reports (N, width) add to the store's sums: their scores, the products of scores, and
        how often each code occurs."""
        if self.scores is None or not fresh.any():
            return np.zeros(0)
        tally = self.scores.tally(numbers[fresh])
        codes = [] if tally.codes is None else [tally.codes.astype(np.float64)]
        return np.concatenate([tally.total, tally.square.ravel(), *codes])


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenFamily:
    """A family whose members are all in the store. Each member is a release with its own reports.

    The files of every member hold the `family.json` that it was registered with: that is how families are found.
    """

    family: Family
    members: dict[str, OpenRelease]
    """By the names in the family."""
    files: Mapping[str, bytes] = field(repr=False)
    """"family.json", "answers/client/manifest.json" …: what devices may fetch."""

    @property
    def panel(self) -> Panel | None:
        """The rounds that it plans, the same for all members; None if it plans none."""
        return next(iter(self.members.values())).panel

    @property
    def stored(self) -> StoredRelease:
        """The members as one release: with the rounds that all of them have, and the sums of their reports."""
        return merged(self.family.release_id, [one.stored for one in self.members.values()])

    def round(self, name: str) -> StoredRound:
        """The round of that name in the first member, or a ProblemError unless all members have it."""
        first, *_ = [one.round(name) for one in self.members.values()]
        return first


def parts_of(found: OpenRelease | OpenFamily) -> tuple[OpenRelease, ...]:
    """The release, or the members of the family."""
    return tuple(found.members.values()) if isinstance(found, OpenFamily) else (found,)


def merged(id: str, members: Sequence[StoredRelease]) -> StoredRelease:
    """Members of a family as one release. It is open if all are, and so is a round."""
    first, *others = members
    every = {one.name for member in members for one in member.rounds}
    rounds = []
    for one in first.rounds:
        same = [one, *(found for other in others for found in other.rounds if found.name == one.name)]
        if len(same) == len(members):
            opened, reports = all(found.open for found in same), sum(found.reports for found in same)
            rounds.append(replace(one, open=opened, reports=reports))
    return replace(
        first,
        id=id,
        name=first.name.rpartition("/")[0] or first.name,
        open=all(one.open for one in members),
        rounds=tuple(rounds),
        forgotten=len(every) - len(rounds) + max(one.forgotten for one in members),
        planned=max((one.planned for one in members if one.planned is not None), default=None),
    )


class ReportCost(Protocol):
    """The (ε, δ) of one report."""

    @property
    def epsilon(self) -> float:
        """Its ε."""
        ...

    @property
    def delta(self) -> float:
        """The probability with which ε may fail."""
        ...


@dataclass(frozen=True, kw_only=True)
class Together:
    """What a person has spent at most in so many rounds."""

    rounds: int
    reports: int
    """How many reports a person made at most: one in each round or, with a panel, one in each of its blocks."""
    epsilon: float
    """The sum of the budgets, rounded up."""
    delta: float
    """The sum of the probabilities with which they may fail, rounded up."""
    odds: str
    """Even odds between two people's records become odds of at most this to 1."""

    @classmethod
    def of(cls, spent: Iterable[tuple[ReportCost, int, int]]) -> Together:
        """The total of several releases: of each the budget of one report, the number of its rounds, and how many
        reports a person made in these at most."""
        each = list(spent)
        total = round_up(sum((Fraction(one.epsilon) * reports for one, _, reports in each), Fraction(0)))
        delta = round_up(
            min(sum((Fraction(one.delta) * reports for one, _, reports in each), Fraction(0)), Fraction(1))
        )
        rounds, reports = sum(one[1] for one in each), sum(one[2] for one in each)
        return cls(rounds=rounds, reports=reports, epsilon=total, delta=delta, odds=times_as_likely(total))


def so_far(stored: StoredRelease, panel: Panel | None) -> tuple[int, int]:
    """How many rounds a release has had, and how many reports a person made in them at most.

    A device makes one report at most in each block of a panel. Of a deleted round the block is not known any more.
    """
    if panel is None:
        return stored.had, stored.had
    blocks = {panel.block(panel.place(one.name)) for one in stored.rounds if one.name in panel.places}
    unknown = stored.had - sum(one.name in panel.places for one in stored.rounds)
    return stored.had, min(len(blocks) + unknown, panel.reports)


def in_all(stored: StoredRelease, panel: Panel | None) -> tuple[int, int] | None:
    """How many rounds are planned, and how many reports a person makes in them at most; None if nobody stated it."""
    if panel is not None:
        return len(panel.rounds), panel.reports
    return None if stored.planned is None else (stored.planned, stored.planned)


def planned_words(panel: Panel) -> str:
    """The planned rounds in a few words."""
    first, last = printable(panel.rounds[0]), printable(panel.rounds[-1])
    return f"its {len(panel.rounds)} planned rounds, {first!r} to {last!r},"


class Releases:
    """The current releases of a store. Call `refresh` when the store has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, OpenRelease] = {}
        self._families: dict[str, OpenFamily] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the releases again. Blocks: call it in a thread.

        A release that cannot be opened is noted in the journal and takes no reports. The others are not affected.
        """
        found: dict[str, OpenRelease] = {}
        for stored in self._store.releases():
            files = self._store.files(stored.id)
            known = self._open.get(stored.id)
            try:
                if known is None or known.files != files:
                    known = opened(stored, files)
            except TaskveilError as error:
                failed(f"Release {stored.id[:SHOWN_ID_DIGITS]}… cannot be opened and takes no reports.", error)
                continue
            found[stored.id] = replace(known, stored=stored)
        self._open, self._families = found, self._joined(found)

    def _joined(self, found: Mapping[str, OpenRelease]) -> dict[str, OpenFamily]:
        """The families whose members are all among the releases."""
        families: dict[str, OpenFamily] = {}
        for raw in dict.fromkeys(one.files[FAMILY] for one in found.values() if FAMILY in one.files):
            try:
                manifest = read_manifest(raw)
                named = {one["name"]: found.get(one["release"]) for one in manifest["members"]}
                members = {name: one for name, one in named.items() if one and one.files.get(FAMILY) == raw}
                if len(members) < len(named):
                    continue  # registering it was interrupted: its members take reports, and it can be repeated
                known = self._families.get(manifest["digest"])
                if known is None or any(known.members[name].files != one.files for name, one in members.items()):
                    files = {f"{name}/{path}": raw for name, one in members.items() for path, raw in one.files.items()}
                    signature = next(iter(members.values())).files.get(FAMILY_SIGNATURE)
                    files |= {FAMILY: raw} | ({} if signature is None else {FAMILY_SIGNATURE: signature})
                    public = {path: raw for path, raw in files.items() if f"/{SERVER}/" not in path}
                    known = OpenFamily(family=Family.from_files(files), members=members, files=public)
                families[manifest["digest"]] = replace(known, members=members)
            except TaskveilError as error:
                failed("A family of releases cannot be opened; its members take reports.", error)
        return families

    def get(self, id: str) -> OpenRelease:
        """The release with this id, or a ProblemError."""
        if id not in self._open:
            raise ProblemError(ProblemType.RELEASE_UNKNOWN, "The operator opens it with taskveil collection open.")
        return self._open[id]

    def either(self, id: str) -> OpenRelease | OpenFamily:
        """The family or the release with this id, or a ProblemError."""
        return self._families[id] if id in self._families else self.get(id)

    def family_of(self, id: str) -> str | None:
        """The id of the family that a release belongs to; None if it belongs to none."""
        return next(
            (name for name, one in self._families.items() if id in [m.stored.id for m in one.members.values()]), None
        )

    def families(self) -> tuple[OpenFamily, ...]:
        """All families whose members could be opened."""
        return tuple(self._families.values())

    def all(self) -> tuple[OpenRelease, ...]:
        """All releases that could be opened, in the order in which they were registered."""
        return tuple(self._open.values())


def opened(stored: StoredRelease, files: Mapping[str, bytes]) -> OpenRelease:
    """The release in these files, checked against their digests and its id, or a ReleaseError."""
    veil = Veil.from_files(files)
    if veil.release_id != stored.id:
        raise ReleaseError("the stored files are of another release.")
    return OpenRelease(stored=stored, veil=veil, files=dict(files), scores=_scores(veil))


def register(
    store: Store,
    folder: Path | str,
    *,
    round: str | None = None,
    verify_key: Path | str | None = None,
    name: str | None = None,
) -> str:
    """Add a release or all members of a family to a store, open for reports. Releases that were added before stay, with
    their reports.

    Args:
        store: where reports go.
        folder: the folder that `Veil.save` or `Family.save` wrote; altered files are refused. A frontier.json in it is
            kept too.
        round: the round that is opened and becomes the current one; by default `first_round`.
        verify_key: a PEM file; with it, the release must be signed by that key.
        name: shown to people; by default the name of the folder.

    Returns:
        The release's or the family's id.
    """
    place = Path(folder)
    if is_family(place):
        return _register_family(store, place, round, verify_key, printable(name or place.resolve().name))
    files = release_files(place)
    veil = Veil.from_files(files, verify_key=verify_key, where=str(place))
    if (place / FRONTIER).is_file():
        files[FRONTIER] = (place / FRONTIER).read_bytes()
    files |= _of_family(store, veil.release_id)
    _add(store, veil, files, printable(name or place.resolve().name), round)
    return veil.release_id


def _add(store: Store, veil: Veil, files: Mapping[str, bytes], name: str, first: str | None) -> None:
    scores, round = _scores(veil), round_name(first_round(veil.panel) if first is None else first, veil.panel)
    for planned in () if veil.panel is None else veil.panel.rounds:
        # A round that cannot be opened would take the reports of nobody, and devices would spend their budget on it.
        round_name(planned, veil.panel)
    counted = scores is not None and scores.listed
    store.add_release(veil.release_id, name=name, counted=counted, files=files, round=round)


def _of_family(store: Store, id: str) -> dict[str, bytes]:
    """The files of the family with which a release was registered before."""
    known = store.files(id) if id in [one.id for one in store.releases()] else {}
    return {name: known[name] for name in (FAMILY, FAMILY_SIGNATURE) if name in known}


def _register_family(store: Store, place: Path, first: str | None, verify_key: Path | str | None, name: str) -> str:
    """Add every member, with the description of the family. If it is interrupted, it can be repeated."""
    files = all_files(place)
    family = Family.from_files(files, verify_key=verify_key, where=str(place))
    shared = {name: files[name] for name in (FAMILY, FAMILY_SIGNATURE) if name in files}
    round = first_round(next(iter(family.members.values())).panel) if first is None else first
    known = {one.id: one for one in store.releases()}
    for member, veil in family.members.items():
        alone = known.get(veil.release_id)
        joined = _of_family(store, veil.release_id)
        if alone is not None and not joined and any(one.name == round for one in alone.rounds):
            # A device records a member alone and the family under two ids: this round would cost twice, counted once.
            raise ReleaseError(
                f"{place}: {member} has collected round {round!r} by itself, and the family would ask the same people "
                "again in a round of this name. Open the family with another round: --round NAME."
            )
        if joined.get(FAMILY, files[FAMILY]) != files[FAMILY]:
            raise ReleaseError(
                f"{place}: {member} is collected as a member of another family already. Reports do not name their "
                "family, so that one release can be in one family of a collector only."
            )
    for member, veil in family.members.items():
        start = f"{member}/"
        own = {path.removeprefix(start): raw for path, raw in files.items() if path.startswith(start)}
        _add(store, veil, own | shared, f"{name}/{member}", round)
    return family.release_id


def first_round(panel: Panel | None) -> str:
    """The round that is opened with a release: that of today, if it is planned, or the first one."""
    if panel is None:
        return "0"
    try:
        return panel.round_on(datetime.now(UTC))  # as browsers count
    except DataError:
        return panel.rounds[0]


def round_name(name: str, panel: Panel | None) -> str:
    """The name, if it is allowed for a round of a release with this panel; else a DataError.

    HTTP clients leave out . and .. from addresses: a request that closes such a round would close its release. A
    spreadsheet computes what begins with one of = + - @, and rounds are a column of the export.
    """
    if not 0 < len(name.encode(errors="replace")) <= LONGEST_TEXT or not name.isprintable() or "/" in name:
        raise DataError(f"a round's name is 1 to {LONGEST_TEXT} bytes of text that can be printed, without a slash.")
    if name in (".", "..") or name.startswith(("=", "+", "-", "@")):
        raise DataError("a round's name is neither . nor .., and does not begin with = + - or @.")
    if panel is not None and name not in panel.places:
        raise DataError(
            f"round {printable(name)!r} is not planned: devices report in {planned_words(panel)} and in no other."
        )
    return name


def _scores(veil: Veil) -> Scores | None:
    try:
        return scores_of(veil)
    except DataError:  # a design of an older taskveil: its reports are decoded one by one
        return None
