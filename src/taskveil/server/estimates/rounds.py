"""The reports of one release: counted, checked, and found to be enough for a statement about people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Bools, Floats
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook
from taskveil.errors import DataError
from taskveil.reference import Reference
from taskveil.server.estimates.frequencies import frequencies, on_the_simplex
from taskveil.server.estimates.result import Interval
from taskveil.server.estimates.scores import Evidence, Scores, Tally, scores_of
from taskveil.veil import Veil

FEWEST = 100
"""Reports that an estimate needs at least: it is about people in general, never about a few."""
SURE = 0.25
"""How well an estimate must know what reports tell best, in the volunteers' standard deviations, to be one."""

UNTOLD = 1e-4
"""The share of a mean that latents may leave open: devices round weights to whole numbers."""


def tally(veil: Veil, reports: Any) -> Tally:
    """What reports add up to. Tallies of the parts of a collection add up (`+`) to that of the whole, so that nobody
    has to hold all reports at once."""
    if isinstance(reports, Tally):
        if reports.release != veil.release_id:
            raise DataError(
                f"this is a tally of reports of release {reports.release[:12]}…, not of {veil.release_id[:12]}…. "
                "Estimate from it with the release that the reports were made with."
            )
        return reports
    return scores_of(veil).tally(veil.checked(reports))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Round:
    """What reports of one veil say (`evidence`), beside what its volunteers would: `seen` (V, p)."""

    veil: Veil
    reference: Reference
    scores: Scores
    tally: Tally
    evidence: Evidence
    seen: Floats

    @classmethod
    def of(cls, veil: Veil, reports: Any) -> Round:
        """Reports or their tally, or a DataError that says why they make no estimate."""
        if veil.reference is None:
            raise DataError(
                "this veil keeps no volunteers to compare people with: design it with this version of taskveil, and "
                "save it with volunteers=True."
            )
        scores, counted = scores_of(veil), tally(veil, reports)
        seen, needed = scores.seen(veil.reference), FEWEST
        if counted.count >= FEWEST:
            if counted.codes is not None and np.count_nonzero(counted.codes) == 1 < len(counted.codes):
                raise DataError(
                    f"all {counted.count:,} reports are the same, and those of many people never are: was one counted "
                    "many times?"
                )
            evidence = scores.evidence(counted, veil.reference)
            needed = max(FEWEST, _needed(evidence, seen))
        if counted.count < needed:
            raise DataError(
                f"{counted.count:,} reports of this release are too few for any statement about people: "
                f"{'at least ' if needed == FEWEST else ''}{needed:,} are needed. What single reports say is noise."
            )
        return cls(
            veil=veil,
            reference=veil.reference,
            scores=scores,
            tally=counted,
            evidence=evidence,
            seen=seen,
        )

    @property
    def looked_at(self) -> int:
        """How many numbers of a record devices look at, of which what codewords stand for may be many functions."""
        latents = self.reference.latents
        return int(np.linalg.matrix_rank(latents - latents.mean(axis=0), rtol=1e-6))

    @property
    def volunteers(self) -> bytes:
        """Equal for releases that were designed with the same volunteers for the same answers."""
        return self.reference.records.tobytes() + self.reference.answers.tobytes()

    @property
    def matrix(self) -> Floats:
        """K (m, n) of a task that is linear in the record."""
        return np.asarray(self.veil.task.predict(np.eye(self.veil.encoder.width))).T  # type: ignore[union-attr]

    def tells(self, K: Floats) -> Bools:
        """(t,): whether the latents of this release determine Kx, K (t, n). Where they do not, what is not told of a
        record decodes to the volunteers' mean, and the mean of it is theirs."""
        encoder = self.veil.encoder
        if not isinstance(encoder, LinearEncoder):
            return np.ones(len(K), dtype=bool)
        # In shares of the attributes' ranges, whatever their units.
        rows, wanted = encoder.weights.astype(np.float64), K * (encoder.high - encoder.low)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        untold = wanted - wanted @ np.linalg.pinv(rows) @ rows
        return np.asarray(np.linalg.norm(untold, axis=1) <= UNTOLD * np.linalg.norm(wanted, axis=1))

    def frequencies(self, *, simplex: bool) -> tuple[Interval, ...]:
        """How many people favour each codeword; of mechanisms without a list of codewords, none."""
        mechanism, counts = self.veil.mechanism, self.tally.codes
        if not isinstance(mechanism, Codebook) or counts is None:
            return ()
        (stage,) = mechanism.stages
        shares, low, high = frequencies(counts, stage.response)
        if simplex:
            shares = on_the_simplex(shares, stage.response.favoured)
        names = [f"codeword {place}" for place in range(len(shares))]
        return tuple(map(Interval, names, shares.tolist(), low.tolist(), high.tolist()))


def _needed(evidence: Evidence, seen: Floats) -> int:
    """How many reports there must be, by how well one of them tells the direction that is told best."""
    told = seen @ evidence.directions / np.sqrt(evidence.count)
    most = float(np.linalg.eigvalsh(np.atleast_2d(np.cov(told.T)))[-1]) if told.shape[1] else 0.0
    if most <= 1e-12:
        raise DataError("reports of this release say nothing about anybody: its design found nothing worth telling.")
    return int(np.ceil(1.0 / (most * SURE**2)))
