"""Population estimates of the stored reports: `tv.estimate` of what the store has counted, not of single reports.

Estimates are computed in a thread of their own, one at a time, on one core: sending reports comes before looking at
them. Requests for what is being computed wait for the same one. One that takes long is given again as it was until ten
times as long has passed: however many people watch a busy round, that costs a tenth of a core.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.store import Store, StoredRelease
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates import Estimate, estimate
from taskveil.estimates.assumed import Assumption
from taskveil.estimates.rows import finite
from taskveil.estimates.scores import Tally, scores_of
from taskveil.veil import Veil

CONFIDENCE = 0.95
"""How often the intervals hold, and those of changes."""
QUICK = 0.1
"""Seconds. What takes no longer is computed again for every request, if there are more reports."""
REST = 10.0
"""How many times as long as another estimate took it is given again without a look at the store."""
LONGEST_REST = 30.0
"""Seconds that it is given again at most."""
MOST_KEPT = 32
"""Estimates that a worker keeps."""
MOST_WAITING = 16
"""Estimates that wait to be computed; a request for one more is asked to come again."""
PATIENCE = 20.0
"""Seconds that a request waits for its estimate."""


def stored_tally(veil: Veil, store: Store, *, counted: bool, round: str | None = None) -> Tally:
    """What all stored reports of a veil's release add up to: the same as `tally` of the reports themselves.

    Args:
        veil: of the release.
        store: where the reports lie. Blocks.
        counted: whether the store counts how often each value came (`StoredRelease.counted`), or adds up moments.
        round: the name of one round; None for all.
    """
    scores, release = scores_of(veil), veil.release_id
    empty = scores.tally(np.zeros((0, veil.mechanism.report_width), dtype=np.int64))
    if counted:
        payloads, found = store.counts(release, round)
        if not len(payloads) or empty.codes is None:
            return empty
        numbers, _ = veil.mechanism.layout.unpack_all(payloads)
        codes = np.zeros_like(empty.codes)
        codes[numbers[:, 0]] = found
        return Tally(release=release, count=int(found.sum()), codes=codes, total=empty.total, square=empty.square)
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
class Asked:
    """Which estimate is wanted, with the names and defaults of the request."""

    round: str | None = None
    """The name of one round; None for all."""
    since: str | None = None
    """The name of an earlier round: also what changed since then."""
    anytime: bool = True
    """Whether limits hold at all times at once."""
    assume: Assumption | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Kept:
    """An estimate, what it was made of, and until when it is good without a look at the store."""

    reports: int
    estimate: Estimate | DataError
    """Or why there is none."""
    until: float


class Estimates:
    """Estimates of what a store holds, made when they are asked for."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._kept: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()
        self._coming: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="estimates")

    def close(self) -> None:
        """Compute no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, release: StoredRelease, veil: Veil, asked: Asked) -> bytes:
        """The JSON of an estimate; a ProblemError if the reports are too few, or the release does not allow it.

        Args:
            release: as the store has it now. Its rounds must include those that are named.
            veil: what its reports were made with.
            asked: which estimate.
        """
        key = (release.id, _numbers(release, None), asked)
        coming = self._coming.get(key)
        if coming is None:
            if len(self._coming) >= MOST_WAITING:
                raise ProblemError(Problem.BUSY, "Many estimates are being computed.", retry_after=2)
            coming = self._begun(key, release, veil, asked)
        try:
            return await asyncio.wait_for(asyncio.shield(coming), PATIENCE)
        except TimeoutError:
            raise ProblemError(Problem.BUSY, "The estimate takes longer than this.", retry_after=5) from None
        except asyncio.CancelledError:
            if coming.cancelled():  # by `close`, and not the request
                raise _stopping() from None
            raise

    def _begun(self, key: tuple[Any, ...], *work: Any) -> asyncio.Future[bytes]:
        try:
            coming = asyncio.get_running_loop().run_in_executor(self._thread, self._answered, *work)
        except RuntimeError:  # what the executor raises after its shutdown
            raise _stopping() from None

        def done(it: asyncio.Future[bytes]) -> None:
            self._coming.pop(key, None)
            it.cancelled() or it.exception()  # seen, also where no request waits for it any more

        coming.add_done_callback(done)
        self._coming[key] = coming
        return coming

    def _answered(self, release: StoredRelease, veil: Veil, asked: Asked) -> bytes:
        rule = (asked.anytime, asked.assume, CONFIDENCE)
        with threadpool_limits(1):
            found = self._estimate(release, veil, asked.round, rule)
            content = {**found.content(), "round": asked.round, "rows": table_rows(found)}
            if asked.since is not None:
                # Limits at all times are subtracted: each round has half of the error probability.
                each = (1 + CONFIDENCE) / 2 if asked.anytime else CONFIDENCE
                now, then = (
                    self._estimate(release, veil, one, (*rule[:2], each)) for one in (asked.round, asked.since)
                )
                content["since"] = asked.since
                content["changes"] = {
                    kind: [finite(one._asdict()) for one in members] for kind, members in now.minus(then).items()
                }
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def _estimate(
        self, release: StoredRelease, veil: Veil, round: str | None, rule: tuple[bool, Assumption | None, float]
    ) -> Estimate:
        """Of one round or all; what is kept, as long as that is as good. `rule`: anytime, assume, confidence."""
        key, start = (release.id, _numbers(release, round), rule), monotonic()
        kept = self._kept.get(key)
        if kept is None or kept.until < start:
            try:
                counted = stored_tally(veil, self._store, counted=release.counted, round=round)
            except KeyError:  # forgotten a moment ago
                raise ProblemError(Problem.ROUND_UNKNOWN, "It was deleted just now.") from None
            except DataError as error:
                raise _refused(error) from None
            if kept is None or kept.reports != counted.count:
                kept = _Kept(reports=counted.count, estimate=_estimated(veil, counted, rule), until=0.0)
                self._metrics.estimated(monotonic() - start)
            took = monotonic() - start
            rest = 0.0 if took < QUICK else min(REST * took, LONGEST_REST)
            kept = _Kept(reports=kept.reports, estimate=kept.estimate, until=start + took + rest)
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        if isinstance(kept.estimate, DataError):
            raise _refused(kept.estimate)
        return kept.estimate


def _estimated(veil: Veil, counted: Tally, rule: tuple[bool, Assumption | None, float]) -> Estimate | DataError:
    anytime, assume, confidence = rule
    try:
        return estimate(veil, counted, anytime=anytime, assume=assume, confidence=confidence)
    except DataError as error:
        return error


def _stopping() -> ProblemError:
    return ProblemError(Problem.STOPPING, "Ask again in a moment.", retry_after=5)


def _refused(error: DataError) -> ProblemError:
    """Too few reports, or an assumption that the release does not allow."""
    words, kind = str(error), Problem.TOO_FEW if isinstance(error, TooFewReportsError) else Problem.INVALID
    return ProblemError(kind, words[:1].upper() + words[1:])


def _numbers(release: StoredRelease, round: str | None) -> tuple[int, ...]:
    """Of the round, or of all: a round that was forgotten and one of the same name are not the same."""
    return tuple(one.number for one in release.rounds if round in (None, one.name))


def table_rows(found: Estimate) -> list[dict[str, Any]]:
    """The table as tv prints it; every line with the group that it is of, and its place there."""
    names = ("name", "estimate", "interval", "volunteers", "forged")
    lines = [
        (row, {"group": kind, "place": place, **dict(zip(names, row.cells, strict=True))})
        for kind, rows in found.groups.items()
        for place, row in enumerate(rows)
        if row.label.shown
    ]
    return [line for _, line in sorted(lines, key=lambda one: one[0].assumes is not None)]  # as `Estimate.rows`
