"""Population estimates from the stored reports: `tv.estimate` of the store's counts and sums.

Estimates are computed in one thread, one at a time, because receiving reports has priority. Requests for the same
estimate share one computation. An estimate that takes t seconds is given again for 10 t seconds, so that watching a
busy round costs at most a tenth of a core.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import OpenFamily, OpenRelease, parts_of
from taskveil.collector.store import Store
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates import Estimate, Series, estimate
from taskveil.estimates.assumed import Assumption
from taskveil.estimates.rows import finite
from taskveil.estimates.scores import Tally, scores_of
from taskveil.estimates.survey import SurveyEstimate, cell_texts
from taskveil.veil import Veil
from taskveil.veil.central import usual_delta
from taskveil.veil.loss_intervals import CONFIDENCE

Found = TypeVar("Found", Estimate, Series)

KEPT_TIMES_AS_LONG = 10.0
"""An estimate is given again for this many times its computing time."""
MAX_ESTIMATES = 32
"""Estimates that are kept, and estimates that wait to be computed. A request for one more gets 503."""


def stored_tally(veil: Veil, store: Store, *, counted: bool, round: str | None = None) -> Tally:
    """The tally of all stored reports of a release: the same as `tally` of the reports themselves.

    Args:
        veil: of the release.
        store: with the reports. Blocks.
        counted: whether the store counts each value (`StoredRelease.counted`) or adds up moments.
        round: the name of one round; None for all.
    """
    scores, release = scores_of(veil), veil.release_id
    empty = scores.tally(np.zeros((0, veil.mechanism.report_width), dtype=np.int64))
    if counted:
        payloads, found = store.counts(release, round)
        if not len(payloads) or empty.codes is None:
            return empty
        numbers, _ = veil.mechanism.layout.unpack_all(payloads)
        return scores.of_counts(numbers[:, 0], found)
    count, moments = store.moments(release, round)
    if not count:
        return empty
    ends = np.cumsum([len(empty.total), empty.square.size])
    total, square, found_codes = np.split(moments, ends)
    return Tally(
        release=release,
        count=count,
        codes=None if empty.codes is None else np.rint(found_codes).astype(np.int64),
        total=total,
        square=square.reshape(empty.square.shape),
    )


@dataclass(frozen=True, kw_only=True)
class EstimateRequest:
    """The parameters of a request for an estimate."""

    round: str | None = None
    """The name of one round; None for all."""
    since: str | None = None
    """The name of an earlier round, to show the changes since then."""
    anytime: bool = True
    """Whether the intervals stay valid however often somebody looks."""
    assume: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class SeriesRequest:
    """The parameters of a request for all rounds."""

    people: int | None = None
    """How many people take part."""
    anytime: bool = True
    assume: Assumption | None = None
    round: str | None = None
    """Always None: all rounds."""


class Estimates:
    """Computes estimates of the stored reports on request."""

    def __init__(self, store: Store, metrics: Metrics, *, timeout: float) -> None:
        """`timeout`: how many seconds a request waits for an estimate."""
        self._store, self._metrics, self._timeout = store, metrics, timeout
        self._kept: dict[tuple[Any, ...], tuple[float, Estimate | Series | DataError]] = {}
        """Until when each estimate or series is given again (or the reason why there is none), the oldest first."""
        self._coming: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="estimates")

    def close(self) -> None:
        """Compute no more estimates."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, release: OpenRelease | OpenFamily, asked: EstimateRequest | SeriesRequest) -> bytes:
        """The JSON of an estimate or of a series. ProblemError if there are too few reports, or the release does not
        allow it.

        Args:
            release: its newest state. It must have the rounds of the request.
            asked: the parameters.
        """
        key = (release.stored.id, _numbers(release, None), asked)
        coming = self._coming.get(key)
        if coming is None:
            if len(self._coming) >= MAX_ESTIMATES:
                raise ProblemError(ProblemType.BUSY, "Many estimates are being computed.", retry_after=2)
            coming = self._begun(key, release, asked)
        try:
            return await asyncio.wait_for(asyncio.shield(coming), self._timeout)
        except TimeoutError:
            raise ProblemError(ProblemType.BUSY, "The estimate takes too long.", retry_after=5) from None
        except asyncio.CancelledError:
            if coming.cancelled():  # by `close`, not with the request
                raise _stopping() from None
            raise

    def _begun(self, key: tuple[Any, ...], *work: Any) -> asyncio.Future[bytes]:
        try:
            coming = asyncio.get_running_loop().run_in_executor(self._thread, self._answered, *work)
        except RuntimeError:  # the executor is shut down
            raise _stopping() from None

        def done(it: asyncio.Future[bytes]) -> None:
            self._coming.pop(key, None)
            it.cancelled() or it.exception()  # read the exception, even if no request waits any more

        coming.add_done_callback(done)
        self._coming[key] = coming
        return coming

    def _answered(self, release: OpenRelease | OpenFamily, asked: EstimateRequest | SeriesRequest) -> bytes:
        rule = (asked.anytime, asked.assume, CONFIDENCE)
        with threadpool_limits(1):
            if isinstance(asked, SeriesRequest):
                return _written(self._series(release, asked))
            found = self._estimate(release, asked.round, rule)
            content = {**found.content(), "round": asked.round, "rows": table_rows(found)}
            if asked.round is not None:
                veils = {one.veil.release_id: one.veil for one in parts_of(release)}
                asked_of = [(veils[one.releases[0]], one.reports) for one in list(found.members.values()) or [found]]
                # No central guarantee is known for mechanisms with δ > 0.
                content["crowd"] = [crowd_of(veil, count) for veil, count in asked_of if not veil.guarantee.delta]
            if asked.since is not None:
                # Where limits are subtracted, each round gets half of the error probability.
                apart = not asked.anytime and _are_apart(release, asked.round, asked.since)
                each = CONFIDENCE if apart else (1 + CONFIDENCE) / 2
                now, then = (self._estimate(release, one, (*rule[:2], each)) for one in (asked.round, asked.since))
                content["since"] = asked.since
                changes = now.minus(then, different_people=apart)
                content["changes"] = {
                    kind: [finite(one._asdict()) for one in members] for kind, members in changes.items()
                }
            return _written(content)

    def _estimate(
        self, release: OpenRelease | OpenFamily, round: str | None, rule: tuple[bool, Assumption | None, float]
    ) -> Estimate:
        """The estimate of one round or of all, computed or kept. `rule`: anytime, assume, confidence."""
        anytime, assume, confidence = rule

        def computed() -> Estimate:
            veil, tallies = self._counted(release, round)
            one: Estimate = estimate(veil, tallies, anytime=anytime, assume=assume, confidence=confidence)
            return one

        found = self._known((release.stored.id, _numbers(release, round), rule), computed)
        assert isinstance(found, Estimate)  # noqa: S101 - its key is one of estimates
        return found

    def _series(self, release: OpenRelease | OpenFamily, asked: SeriesRequest) -> dict[str, Any]:
        """All rounds, computed or kept."""
        stored = release.stored
        planned = None if release.panel is not None else max(stored.had, stored.planned or 0)
        rule = (asked.anytime, asked.assume, planned)

        def computed() -> Series:
            rounds = {one.name: self._counted(release, one.name) for one in stored.rounds}
            if not rounds:
                raise TooFewReportsError("the release has no round.")
            veil = next(veil for veil, _ in rounds.values())
            tallies = {name: own for name, (_, own) in rounds.items()}
            return estimate(veil, tallies, anytime=asked.anytime, assume=asked.assume, planned_rounds=planned)

        found = self._known((stored.id, _numbers(release, None), "series", rule), computed)
        assert isinstance(found, Series)  # noqa: S101 - its key is one of series
        try:
            return found.content(asked.people)
        except DataError as error:
            raise ProblemError(ProblemType.INVALID, f"people: {error}") from None

    def _known(self, key: tuple[Any, ...], compute: Callable[[], Found]) -> Estimate | Series:
        """What is kept under the key, or computed now. ProblemError for a DataError, which is kept too."""
        start = monotonic()
        until, found = self._kept.get(key, (start, None))
        if found is None or until <= start:
            found = _or_error(compute)
            took = monotonic() - start
            self._metrics.estimated(took)
            self._kept.pop(key, None)
            self._kept[key] = (monotonic() + KEPT_TIMES_AS_LONG * took, found)
            if len(self._kept) > MAX_ESTIMATES:
                del self._kept[next(iter(self._kept))]
        if isinstance(found, DataError):
            words, few = str(found), isinstance(found, TooFewReportsError)
            raise ProblemError(ProblemType.TOO_FEW if few else ProblemType.INVALID, words[:1].upper() + words[1:])
        return found

    def _counted(self, release: OpenRelease | OpenFamily, round: str | None) -> tuple[Any, Any]:
        """What `tv.estimate` takes of a round, or of all: the veil or family, and tallies."""
        if isinstance(release, OpenFamily):
            return release.family, {name: self._tally(one, round) for name, one in release.members.items()}
        return release.veil, self._tally(release, round)

    def _tally(self, release: OpenRelease, round: str | None) -> Tally:
        return stored_tally(release.veil, self._store, counted=release.stored.counted, round=round)


def crowd_of(veil: Veil, reports: int) -> dict[str, Any]:
    """What a round with so many reports reveals to those who see them without order, time and sender. The number is
    rounded down to two digits, so that it is not computed again for every report."""
    unit: int = 10 ** max(0, len(str(reports)) - 2)
    return _crowd(veil, reports // unit * unit)


@lru_cache(maxsize=MAX_ESTIMATES)
def _crowd(veil: Veil, reports: int) -> dict[str, Any]:
    found = veil.central(reports=reports, delta=usual_delta(reports))
    return {"release": veil.release_id, **asdict(found), "statement": found.statement, "assumes": found.assumes}


def _or_error(compute: Callable[[], Found]) -> Found | DataError:
    """What is computed, or the DataError that says why not."""
    try:
        return compute()
    except KeyError:
        raise ProblemError(ProblemType.ROUND_UNKNOWN, "It was deleted a moment ago.") from None
    except DataError as error:
        return error


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _are_apart(release: OpenRelease | OpenFamily, round: str | None, since: str) -> bool:
    """Whether different devices reported in these two rounds."""
    return release.panel is not None and round is not None and release.panel.are_apart(round, since)


def _stopping() -> ProblemError:
    return ProblemError(ProblemType.STOPPING, "Ask again in a moment.", retry_after=5)


def _numbers(release: OpenRelease | OpenFamily, round: str | None) -> tuple[int, ...]:
    """The numbers of the round, or of all rounds. A deleted round and a new one of the same name differ in them."""
    return tuple(one.number for part in parts_of(release) for one in part.stored.rounds if round in (None, one.name))


def table_rows(found: Estimate) -> list[dict[str, Any]]:
    """The lines of the printed table, each with its group and its place there; those of a survey with the title of
    their section, and those of a cross-table with the texts of their two values."""
    names = ("name", "estimate", "interval", "volunteers", "forged")
    if isinstance(found, SurveyEstimate):
        places = {id(row): place for rows in found.groups.values() for place, row in enumerate(rows)}
        return [
            {
                **{"group": section.kind, "place": places[id(row)], "section": section.title},
                **dict(zip(names, row.cells, strict=True)),
                **({"cell": list(cell_texts(row))} if section.kind == "pairs" else {}),
            }
            for section in found.sections()
            for row in section.rows
        ]
    lines = [
        (row, {"group": kind, "place": place, **dict(zip(names, row.cells, strict=True))})
        for kind, rows in found.groups.items()
        for place, row in enumerate(rows)
        if row.label.shown
    ]
    return [line for _, line in sorted(lines, key=lambda one: one[0].assumes is not None)]  # as `Estimate.rows`
