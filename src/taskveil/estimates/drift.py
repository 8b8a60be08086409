"""Whether people differ from the volunteers in what reports measure: one test, and which rows moved.

Every row k has the reports' estimate and the volunteers' value, and z_k is their difference over its standard error.
The test takes the largest |z_k|. Its distribution where people are like the volunteers is simulated, with the reports'
and the volunteers' sampling errors and the correlations between rows, so the test has the level it states. The same
simulation gives every row a p-value that allows for the number of rows (Westfall and Young's single step): a row is
named only if that is below the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.records.schema import SHOWN_VALUES
from taskveil.veil.loss_intervals import LEVEL
from taskveil.veil.volunteers import FOLDS, Volunteers

DRAWS = 2000
"""Of the simulation: the level is then right within half a percent."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """`p_value`: how rare reports so far from the volunteers are where people are like them; `moved`: names of rows
    that moved, the most certain first.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> others = np.tile(X + 2, (20, 1))  # people unlike the volunteers
        >>> drift = tv.estimate(veil, veil.privatize(others)).drift
        >>> drift.raised, sorted(drift.moved)
        (True, ['x0', 'x1'])
    """

    p_value: float = 1.0
    """1 where nothing can be compared."""
    moved: tuple[str, ...] = ()
    words: str

    @property
    def raised(self) -> bool:
        """Whether people differ from the volunteers; one collection in twenty raises this where they do not."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        return self.words


def drift_of(z: Floats, simulated: Floats, names: Sequence[str], changes: Sequence[str]) -> Drift:
    """The test of z (t,) against simulated ones (draws, t), for rows of these names; `changes` are sentences."""
    if not len(z):
        return Drift(words="Nothing that is measured can be compared with the volunteers.")
    most = np.abs(simulated).max(axis=1)
    beyond = (1 + (most[:, None] >= np.abs(z)).sum(axis=0)) / (1 + len(most))
    p_value = float(beyond.min())
    said = f"(p = {p_value:.2g}" if p_value > 2 / DRAWS else f"(p < {2 / DRAWS:g}"
    words = f"No sign that people differ from the volunteers {said}; the test raises at 5%)."
    order = [place for place in np.argsort(-np.abs(z), kind="stable").tolist() if beyond[place] < LEVEL]
    if order:
        more = [f"and {len(order) - SHOWN_VALUES} more"] if len(order) > SHOWN_VALUES else []
        listed = "; ".join([changes[place] for place in order[:SHOWN_VALUES]] + more)
        words = f"People differ from the volunteers {said}; the test raises at 5%): {listed}."
    return Drift(p_value=p_value, moved=tuple(names[place] for place in order), words=words)


def of_means(
    people: Floats,
    errors: Floats,
    reports: Floats | int,
    volunteers: Floats,
    variances: Floats,
    count: int,
    bounds: Floats | None = None,
) -> tuple[Floats, Floats]:
    """z (t,) and simulated ones (draws, t) for means.

    Args:
        people: the means (t,) that so many `reports` give, (t,) or one number; `errors` (t, t) is the covariance of
            their errors.
        volunteers: the means (t,) and `variances` (t,) of the volunteers, who are `count`. Their covariances are not
            known and count as zero: where columns vary together, the test raises less often than it states.
        bounds: where the values of a person lie (2, t), infinite or twice the same where that is unknown. A column
            whose variance shows that it has two values, at the bounds, is a share: its errors are those of the share
            that reports and volunteers have together, and the volunteers who have it are drawn one by one. So a rare
            value that no volunteer has raises no alarm.
    """
    known, low, wide = np.diag(errors), np.zeros(len(people)), np.ones(len(people))
    shares = np.zeros(len(people), dtype=bool)
    if bounds is not None:
        bounded = np.isfinite(bounds).all(axis=0) & (bounds[1] > bounds[0])
        low, high = np.where(bounded, bounds, [[0.0], [1.0]])
        wide = high - low
        shares = bounded & is_two_valued((volunteers - low) / wide, variances / wide**2)
    seen, own, least = (people - low) / wide, (volunteers - low) / wide, 0.5 / (count + 1.0)
    noise = np.maximum(known / wide**2 - _binomial(np.clip(seen, 0.0, 1.0), reports), 0.0)  # of the channel

    def alike(seen: Floats, own: Floats) -> tuple[Floats, Floats, Floats]:
        """If people are like the volunteers: shares (…, t) that both have, and the variances (…, t) of people's and
        of volunteers' shares, from those `seen` (…, t) and the volunteers' own (…, t)."""
        rough = (own * count + 0.5) / (count + 1.0)
        of_people, of_volunteers = noise + _binomial(rough, reports), _binomial(rough, count)
        weight = of_volunteers / (of_people + of_volunteers)
        null = np.clip(weight * seen + (1.0 - weight) * own, 0.0, 1.0)
        inside = np.clip(null, least, 1.0 - least)
        return null, noise + _binomial(null, reports), _binomial(inside, count)

    null, of_people, of_volunteers = alike(seen, own)
    of_people = np.where(shares, of_people * wide**2, known)
    of_volunteers = np.where(shares, of_volunteers * wide**2, variances / count)
    error = np.sqrt(of_people + of_volunteers)
    z = np.divide(people - volunteers, error, out=np.zeros_like(error), where=error > 0)
    scale = np.where(error > 0, error, 1.0)
    # A little on the diagonal, for columns that say the same; unlike eigenvectors, this root is continuous.
    root = np.linalg.cholesky(errors / np.outer(scale, scale) + 1e-9 * np.eye(len(z)))
    root = root * (np.sqrt(of_people) / scale / np.linalg.norm(root, axis=1))[:, None]
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((2, DRAWS, len(z)))
    # The volunteers' variance is an estimate: Student's law.
    student = np.sqrt((count - 1) / np.maximum(rng.chisquare(count - 1, (DRAWS, 1)), 1e-300))
    of_reports, of_own = drawn[0] @ root.T, drawn[1] * np.sqrt(of_volunteers) / scale * student
    simulated = of_reports + of_own
    if shares.any():
        seen = null + of_reports * scale / wide
        own = rng.binomial(count, null, simulated.shape) / count
        variance = sum(alike(seen, own)[1:])
        simulated = np.where(shares, (seen - own) / np.sqrt(variance), simulated)
    return z, simulated


def _binomial(share: Floats, count: Floats | int) -> Floats:
    """The variance of a share of so many people."""
    return share * (1.0 - share) / count


def is_two_valued(shares: Floats, variances: Floats) -> Bools:
    """(…,): whether values between 0 and 1 with these means and variances (…,) are all 0 or 1, up to rounding."""
    return np.asarray(np.abs(variances - shares * (1.0 - shares)) < 1e-9)


def of_codes(counts: Integers, base: Floats, kept: float, known: Volunteers) -> tuple[Floats, Floats]:
    """z (K,) and simulated ones (draws, K) for `counts` (K,) of codes sent with chance base (K,) + kept · [favoured].

    `known.mean` (K,) is the share of people like the volunteers that favours each code. `known.variance` (K,) is that
    of its error beyond the volunteers' sampling error.
    """
    cells, people, volunteers = known.cells, int(counts.sum()), known.count

    def compared(shares: Floats, favoured: Floats) -> tuple[Floats, Floats]:
        """z (…, K) of codes that came with these `shares` (…, K) and are `favoured` (…, K) by volunteers, and the best
        estimate from both of the share of people that favours each, if people are like the volunteers."""
        seen = (shares - base) / kept

        def variances(favoured: Floats) -> tuple[Floats, Floats]:
            chance = np.clip(base + kept * favoured, 0.0, 1.0)
            return chance * (1.0 - chance) / people / kept**2, favoured * (1.0 - favoured) / volunteers + known.variance

        of_people, of_volunteers = variances((favoured * volunteers + 0.5) / (volunteers + 1.0))
        weight = of_volunteers / (of_people + of_volunteers)
        null = np.clip(weight * seen + (1.0 - weight) * favoured, 0.0, 1.0)
        of_people, of_volunteers = variances(np.maximum(null, 0.5 / (volunteers + 1.0)))
        return (seen - favoured) / np.sqrt(of_people + of_volunteers), null

    z, null = compared(counts / people, known.mean)
    rng = np.random.default_rng(0)
    chances = base + kept * null
    drawn = rng.multinomial(people, chances / chances.sum(), size=DRAWS) / people
    # The volunteers again: who comes is drawn by cells; within a cell, codes are drawn one by one.
    again = rng.multinomial(volunteers, cells.counts / volunteers, size=DRAWS) @ cells.measured / volunteers
    within = cells.together(cells.measured * (1.0 - cells.measured)) / volunteers
    again += np.sqrt(np.maximum(within, 0.0)) * rng.standard_normal(again.shape)
    again += np.sqrt(known.variance) * rng.standard_t(FOLDS - 1, again.shape) + null - cells.together(cells.measured)
    return z, compared(drawn, np.clip(again, 0.0, 1.0))[0]
