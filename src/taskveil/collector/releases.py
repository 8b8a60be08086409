"""The releases that a collector takes reports for: read from the store, and read again when the store changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.values import LONGEST_TEXT
from taskveil.collector.journal import failed
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import SHOWN_ID_DIGITS, Store, StoredRelease, StoredRound
from taskveil.errors import DataError, ReleaseError, TaskveilError, printable
from taskveil.estimates.scores import Scores, scores_of
from taskveil.veil import Veil
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

    def round(self, name: str) -> StoredRound:
        """The round of that name, or a ProblemError."""
        for one in self.stored.rounds:
            if one.name == name:
                return one
        raise ProblemError(ProblemType.ROUND_UNKNOWN, "Its rounds are listed under /v1/releases.")

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


class Releases:
    """The current releases of a store. Call `refresh` when the store has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, OpenRelease] = {}
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
        self._open = found

    def get(self, id: str) -> OpenRelease:
        """The release with this id, or a ProblemError."""
        if id not in self._open:
            raise ProblemError(ProblemType.RELEASE_UNKNOWN, "The operator opens it with taskveil collection open.")
        return self._open[id]

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
    store: Store, folder: Path | str, *, round: str = "0", verify_key: Path | str | None = None, name: str | None = None
) -> str:
    """Add a release to a store, open for reports. Releases that were added before stay, with their reports.

    Args:
        store: where reports go.
        folder: the folder that `Veil.save` wrote; altered files are refused. A frontier.json in it is kept too.
        round: the round that is opened and becomes the current one.
        verify_key: a PEM file; with it, the release must be signed by that key.
        name: shown to people; by default the name of the folder.

    Returns:
        The release's id.
    """
    place = Path(folder)
    files = release_files(place)
    veil = Veil.from_files(files, verify_key=verify_key, where=str(place))
    if (place / FRONTIER).is_file():
        files[FRONTIER] = (place / FRONTIER).read_bytes()
    scores = _scores(veil)
    counted = scores is not None and scores.listed
    shown = printable(name or place.resolve().name)
    store.add_release(veil.release_id, name=shown, counted=counted, files=files, round=round_name(round))
    return veil.release_id


def round_name(name: str) -> str:
    """The name, if it is allowed for a round; else a DataError."""
    if not 0 < len(name.encode(errors="replace")) <= LONGEST_TEXT or not name.isprintable() or "/" in name:
        raise DataError(f"a round's name is 1 to {LONGEST_TEXT} bytes of text that can be printed, without a slash.")
    return name


def _scores(veil: Veil) -> Scores | None:
    try:
        return scores_of(veil)
    except DataError:  # a design of an older taskveil: its reports are decoded one by one
        return None
