"""The inputs that are easiest to distinguish: extremes of the domain, distant latents, hostile and malformed values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from taskveil.arrays import Array, Floats
from taskveil.auditing.scores import Bins, Residues, bit_patterns, mixtures, raw_bits
from taskveil.auditing.target import Target
from taskveil.veil import Veil

BEYOND = (1.01, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)
"""Distances from the middle, in units of the distance to the edge of the box: clipping may fail at some only."""

_EXTREMES = [np.inf, -np.inf, 1e308, -1e308, 1e18, -1e18, 5e-324, -0.0]


@dataclass(frozen=True, kw_only=True, eq=False)
class InputPair:
    """Two inputs (n,) and what they are called."""

    first: Array
    second: Array
    names: tuple[str, str]

    @property
    def natural(self) -> bool:
        """Whether both are records of natural values."""
        return self.first.dtype == object and self.second.dtype == object


def find_pairs(target: Target, *, count: int, pilot: int, rng: np.random.Generator) -> list[InputPair]:
    """The `count` most promising pairs of a pool, judged by `pilot` reports of every member.

    Nothing decided here enters the confidence: the bound is computed on reports made afterwards.
    """
    pool, names = _pool(target, rng)
    reports: list[Array] = []
    kept = []
    for place, record in enumerate(pool):
        try:
            made = target.sample(record, pilot)
        except Exception:  # noqa: S112 - a refusal is judged by the structural checks
            continue
        if not reports or made.shape == reports[0].shape:  # and so is a report of another length
            reports.append(made)
            kept.append(place)
    pool, names = [pool[place] for place in kept], [names[place] for place in kept]
    if len(pool) < 2:
        return []
    rankings = [_distances(reports)]
    if reports[0].dtype.kind == "f":
        rankings.append(_distances([np.hstack([bit_patterns(made), raw_bits(made)]) for made in reports]))
    residues = Residues.of(*reports)
    if residues.entries:
        rankings.append(_distances([residues(made) for made in reports]))
    if reports[0].shape[1] > 1:
        rankings.append(_distances([mixtures(made) for made in reports]))
    if target.veil is not None:
        view = _as_seen(target.veil, target.veil.encoder(target.numbers(pool)))
        rankings.insert(0, cdist(view, view, "cityblock"))
    natural = [place for place, record in enumerate(pool) if record.dtype == object]
    numbers = [place for place in range(len(pool)) if place not in natural]
    # Of both kinds half each, if there are two.
    share = (count - count // 2 if numbers else count) if natural else 0
    chosen = _most_distant(rankings, share, without=numbers) if share else []
    chosen += _most_distant(rankings, count - len(chosen), without=natural)
    return [InputPair(first=pool[i], second=pool[j], names=(names[i], names[j])) for i, j in chosen]


def _most_distant(rankings: list[Floats], count: int, *, without: list[int]) -> list[tuple[int, int]]:
    """At most `count` pairs, taken from every ranking in turn, with none of the members `without`."""
    rankings = [ranking.copy() for ranking in rankings]
    chosen: list[tuple[int, int]] = []
    while len(chosen) < count:
        before = len(chosen)
        for ranking in rankings:
            # Every finalist brings two new inputs: the same two extremes again would show nothing new.
            used = without + [member for pair in chosen for member in pair]
            ranking[used, :] = ranking[:, used] = -np.inf
            i, j = np.unravel_index(np.triu(ranking + 1e-300, 1).argmax(), ranking.shape)
            if i < j and np.isfinite(ranking[i, j]) and len(chosen) < count:
                chosen.append((int(i), int(j)))
        if len(chosen) == before:
            break
    return chosen


@np.errstate(over="ignore", invalid="ignore")  # infinities and NaN are welcome
def hostile_records(low: Floats, high: Floats, rng: np.random.Generator, count: int) -> Floats:
    """`count` vectors a broken sensor, a wrong unit or an attacker may send (count, n)."""
    width = len(low)
    share = count // 5
    bits = rng.integers(0, 2**64, size=(share, width), dtype=np.uint64).view(np.float64)
    values = np.array([np.nan, 0.0, *_EXTREMES])
    mixed = rng.choice(values, size=(share, width))
    span = np.where(high > low, high - low, 1.0)
    inside = low + rng.random((share, width)) * span
    corners = np.where(rng.random((share, width)) < 0.5, low, high)
    rest = count - 4 * share
    scaled = low + span * rng.standard_cauchy((rest, width)) * 10.0 ** rng.integers(-6, 12, size=(rest, 1))
    half = rng.random(inside.shape) < 0.2
    inside[half] = mixed[half]
    return np.concatenate([bits, mixed, inside, corners, scaled])


@np.errstate(over="ignore", invalid="ignore")
def _pool(target: Target, rng: np.random.Generator) -> tuple[list[Array], list[str]]:
    rows = _numbers(target, rng) if target.numeric else []
    if target.natural is not None:
        rows += target.natural.pool(rng)
        if target.veil is not None:
            drawn = target.natural.draw(rng, 1000)
            view = target.veil.encoder(target.numbers(list(drawn)))
            rows += [(f"far natural {i}", drawn[place]) for i, place in enumerate(_spread(target.veil, view, 8, rng))]
    return [record for _, record in rows], [name for name, _ in rows]


@np.errstate(over="ignore", invalid="ignore")
def _numbers(target: Target, rng: np.random.Generator) -> list[tuple[str, Array]]:
    low, high = target.low, target.high
    width = target.width
    rows: list[tuple[str, Array]] = [
        ("all lowest", low),
        ("all highest", high),
        ("middle", target.middle),
        ("all zeros", np.zeros(width)),
        ("all NaN", np.full(width, np.nan)),
    ]
    rows += [(f"all {value:g}", np.full(width, value)) for value in _EXTREMES]
    for column in range(min(width, 3)):
        for value in (np.nan, 1e308, -1e308):
            one = np.where(np.arange(width) == column, value, target.middle)
            rows.append((f"{value:g} in attribute {column}", one))
    for factor in BEYOND:
        for side, edge in (("above", high), ("below", low)):
            rows.append((f"{factor:,.10g}× the range, {side}", target.middle + factor * (edge - target.middle)))
    for place, corner in enumerate(np.where(rng.random((4, width)) < 0.5, -1e308, 1e308)):
        rows.append((f"wild corner {place}", corner))
    if len(target.records):
        known = target.records
        filled = np.nan_to_num(known[:, :8])
        extreme = {*filled.argmax(axis=0).tolist(), *filled.argmin(axis=0).tolist()}
        rows += [(f"record {place}", known[place]) for place in sorted(extreme)]
    if target.veil is not None:
        wild = np.concatenate([hostile_records(low, high, rng, 20_000), target.records])
        for place, taken in enumerate(_spread(target.veil, target.veil.encoder(wild), 8, rng)):
            rows.append((f"far latent {place}", wild[taken]))
    return rows


def _as_seen(veil: Veil, latents: Floats) -> Floats:
    """(N, c): what the mechanism makes of latents (N, Z); ℓ1 distances grow with how well reports distinguish them."""
    return np.nan_to_num(veil.mechanism.contrast(latents))


def _spread(veil: Veil, latents: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """Places of `count` latents (N, Z) far apart in ℓ1, as the mechanism sees them.

    The first two are the farthest along one of many sign vectors s: max‖a − b‖₁ is the largest spread of s·latent over
    all s. Every next one is the farthest from those taken.
    """
    view = _as_seen(veil, latents)
    along = view @ rng.choice([-1.0, 1.0], size=(view.shape[1], 256))
    widest = along[:, np.ptp(along, axis=0).argmax()]
    taken = [int(widest.argmax()), int(widest.argmin())]
    while len(taken) < count:
        taken.append(int(cdist(view, view[taken], "cityblock").min(axis=1).argmax()))
    return taken


def _distances(reports: list[Array]) -> Floats:
    """Pairwise: the sum over columns of total variation between the reports, ties decided by their medians."""
    together = np.concatenate(reports)
    total = np.zeros((len(reports), len(reports)))
    for j in range(together.shape[1]):
        bins = Bins.of(together[:, j])
        rates = np.stack([np.bincount(bins(r[:, j]), minlength=bins.size) / len(r) for r in reports])
        total += cdist(rates, rates, "cityblock") / 2
    with np.errstate(all="ignore"):
        medians = np.nan_to_num(np.stack([np.median(np.nan_to_num(r.astype(np.float64)), axis=0) for r in reports]))
        gaps = cdist(np.tanh(medians * 1e-3), np.tanh(medians * 1e-3), "cityblock")
    return np.asarray(total + 1e-3 * gaps)
