"""What `auto` chooses where there is nothing to learn, and where there is little.

    python benchmarks/choice.py --jobs 16 --json new.jsonl           # random labels: every draw goes into the file
    python benchmarks/choice.py --power --jobs 16 --json new.jsonl   # weak signals, R² = .02, .05, .1
    python benchmarks/choice.py --table new.jsonl                    # only the tables of a file
    python benchmarks/choice.py --table new.jsonl --against old.jsonl

Draws that are in the file already are not computed again. For `--against`, run the same command with the PYTHONPATH of
the older source tree: draws are the same, and are compared pair by pair.

Random labels: "chosen" is a design other than "constant". Losses are expectations over the noise, on 20,000 fresh
records whose labels are random too; the constant is the one prediction fitted to the same volunteers, on the same
records. Bars: a design is chosen in at most 10% of the draws; the mean loss is at most 1.003 × the constant's; from 200
volunteers on no draw is above 1.05; below, at most 5% of the draws are above 1.05 and none above 1.3.

Weak signals: "chosen" stands beside two shares that use the true conditional mean instead of a fitted predictor. "true"
is `auto` with that function as the encoder: the same design and the same test. "known" is Student's one-sided paired
test at 5%, on the volunteers' losses, of a design and a constant that were fitted to 4,000 other records: no choice of
a design enters it. The bar is 1.02 × the better of the constant and, with `--against`, the older design (means over
draws).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: one thread for every process

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import taskveil as tv
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.problem import OnDevice, Problem

Floats = NDArray[np.float64]

WIDTH, FRESH, KNOWN = 5, 20_000, 4_000
SIZES, POWER_SIZES = (30, 60, 200, 1000), (60, 200, 1000)
EPSILONS, POWER_EPSILONS = (0.1, 1.0, 4.0), (1.0, 4.0)
ENCODERS = {
    "auto": OnDevice(),
    "linear": OnDevice(encoder="linear"),
    "light": OnDevice(encoder="light"),
    "trees": OnDevice(encoder="trees"),
    "own": OnDevice(encoder="own", share_model=True),
    "auto+own": OnDevice(share_model=True),
}
"""By the name on the command line: what may run on devices."""
TRUE = "true"
"""The name, in the file, of the encoder that is the true conditional mean."""
SHARES = (0.02, 0.05, 0.1)
KINDS = ("classes", "values")

SIGNALS: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda X: X.sum(axis=1) / np.sqrt(X.shape[1]),
    "product": lambda X: X[:, 0] * X[:, 1],
    "threshold": lambda X: np.sign(X[:, 0] * X[:, 1]),
}
"""Functions of standard normal records with mean 0 and variance 1; only the first is linear."""

MOST_CHOSEN, MOST_MEAN, FEW = 0.10, 1.003, 200
HARM, MOST_HARMED, WORST = 1.05, 0.05, 1.3
MOST_POWER, LEVEL = 1.02, 0.05


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is drawn: `share` is the signal's part of the label's variance (R²), 0 for random labels."""

    kind: str
    signal: str
    share: float
    size: int
    encoder: str
    draw: int


@dataclass(frozen=True, kw_only=True)
class Row(Cell):
    """One draw at one budget: the method chosen, and expected losses on fresh records. `known`, for the true
    predictor: whether Student's test finds the design that was fitted to other records."""

    epsilon: float
    method: str
    loss: float
    constant: float
    seconds: float
    known: bool | None = None


def mean_of(cell: Cell) -> Callable[[Floats], Floats]:
    """The true conditional mean of labels: records (N, n) → (N, S), of classes their probabilities."""
    root = np.sqrt(cell.share)

    def conditional_mean(X: Floats) -> Floats:
        said = root * SIGNALS[cell.signal](X) if cell.share else np.zeros(len(X))
        if cell.kind == "values":
            return said[:, None]
        second = np.clip(0.5 + said / 2, 0.02, 0.98)
        return np.column_stack([1 - second, second])

    return conditional_mean


def drawn(cell: Cell, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
    """Standard normal records (N, n) and their labels (N,)."""
    X = rng.normal(size=(count, WIDTH))
    if cell.kind == "classes":
        return X, (rng.random(count) < mean_of(cell)(X)[:, 1]).astype(np.int64)
    return X, mean_of(cell)(X)[:, 0] + np.sqrt(1 - cell.share) * rng.normal(size=count)


def task_of(cell: Cell, X: Floats, y: NDArray[Any]) -> tv.ModelTask:
    """A small forest, fitted to the volunteers."""
    if cell.kind == "classes":
        model = RandomForestClassifier(10, min_samples_leaf=5, random_state=cell.draw)
        return tv.ModelTask(model.fit(X, y), loss="cross_entropy")
    return tv.ModelTask(RandomForestRegressor(10, min_samples_leaf=5, random_state=cell.draw).fit(X, y), loss="mse")


def designed(problem: Problem, method: str, epsilons: Sequence[float]) -> dict[float, tv.Veil]:
    """A veil for every budget; shared work is done once."""
    made = design_many(designer_of(method), problem, epsilons=epsilons, seeds=[0])
    return {epsilon: veil for epsilon, _, veil in made}


def measured(cell: Cell, epsilons: tuple[float, ...]) -> list[Row]:
    """The rows of one draw. Encoders and shares of signal have the same records, so that they can be compared."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # "nothing to report" is what is counted here
        rng = np.random.default_rng([KINDS.index(cell.kind), cell.size, cell.draw])
        X, y = drawn(cell, cell.size, rng)
        fresh, labels = drawn(cell, FRESH, rng)
        task = task_of(cell, X, y)
        allowed = OnDevice(encoder=mean_of(cell)) if cell.encoder == TRUE else ENCODERS[cell.encoder]
        problem = Problem.of(X, task, y=y, on_device=allowed)
        start = time.process_time()
        veils = designed(problem, "auto", epsilons)
        seconds = (time.process_time() - start) / len(epsilons)
        (nothing,) = designed(problem, "constant", epsilons[:1]).values()
        constant = float(nothing.losses(fresh, labels).mean())
        return [
            Row(
                **asdict(cell),
                epsilon=epsilon,
                method=veil.method,
                loss=float(veil.losses(fresh, labels).mean()),
                constant=constant,
                seconds=seconds,
                known=_found_when_known(cell, epsilon, X, y) if cell.encoder == TRUE else None,
            )
            for epsilon, veil in veils.items()
        ]


def _found_when_known(cell: Cell, epsilon: float, X: Floats, y: NDArray[Any]) -> bool:
    """Whether Student's one-sided test finds, on these volunteers, that the known design beats the known constant."""
    design, constant = _known(cell.kind, cell.signal, cell.share, epsilon)
    gain = constant.losses(X, y) - design.losses(X, y)
    return bool(ttest_1samp(gain, 0.0, alternative="greater").pvalue < LEVEL)


@cache
def _known(kind: str, signal: str, share: float, epsilon: float) -> tuple[tv.Veil, tv.Veil]:
    """The codebook with the true conditional mean, and the constant, both fitted to other records: once a process."""
    cell = Cell(kind=kind, signal=signal, share=share, size=KNOWN, encoder=TRUE, draw=0)
    X, y = drawn(cell, KNOWN, np.random.default_rng(99))
    problem = Problem.of(X, task_of(cell, X, y), y=y, on_device=OnDevice(encoder=mean_of(cell)))
    (design,), (constant,) = (designed(problem, method, [epsilon]).values() for method in ("codebook", "constant"))
    return design, constant


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """All draws that are asked for, the largest first, so that none is left alone at the end."""
    kinds = options.kind or (("values",) if options.power else KINDS)
    encoders = options.encoders or (("auto", "auto+own") if options.power else tuple(ENCODERS))
    sizes = options.sizes or (POWER_SIZES if options.power else SIZES)
    signals: Iterable[tuple[str, float]] = [("none", 0.0)]
    if options.power:
        signals, encoders = list(product(options.signals, SHARES)), (*encoders, TRUE)
    return [
        Cell(kind=kind, signal=signal, share=share, size=size, encoder=encoder, draw=draw)
        for size in sorted(sizes, reverse=True)
        for draw in range(options.draws)
        for kind in kinds
        for signal, share in signals
        for encoder in encoders
    ]


def run(cells: Sequence[Cell], epsilons: tuple[float, ...], jobs: int, file: Path | None) -> list[Row]:
    """The rows of all draws; what is in the file is taken from there, and what is not is added to it."""
    kept = read(file) if file is not None and file.exists() else []
    there = {(_key(row), row.epsilon): row for row in kept}
    missing = [cell for cell in cells if any((_key(cell), epsilon) not in there for epsilon in epsilons)]
    start = time.monotonic()
    # Fresh processes: a fork would copy the locks of threads that are running here.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(measured, cell, epsilons) for cell in missing]
        for count, done in enumerate(as_completed(waiting), 1):
            rows = done.result()
            there.update({(_key(row), row.epsilon): row for row in rows})
            if file is not None:
                with file.open("a", encoding="utf-8") as stream:
                    stream.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
            if count % max(1, len(missing) // 20) == 0:
                print(f"{count} of {len(missing)} draws, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return [there[_key(cell), epsilon] for cell in cells for epsilon in epsilons]


def read(file: Path) -> list[Row]:
    """All rows of a file, one JSON object a line."""
    return [Row(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell.kind, cell.signal, cell.share, cell.size, cell.encoder, cell.draw


def _grouped(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """By (kind, signal, share, size, encoder, ε), in the order in which they are printed."""
    names = (*ENCODERS, TRUE)
    groups: dict[tuple[Any, ...], dict[int, Row]] = {}
    for row in rows:
        key = row.kind, row.signal, row.share, row.size, row.encoder, row.epsilon
        groups.setdefault(key, {})[row.draw] = row
    ordered = sorted(groups, key=lambda key: (*key[:4], names.index(key[4]), key[5]))
    return {key: [groups[key][draw] for draw in sorted(groups[key])] for key in ordered}


def _chosen(rows: Sequence[Row]) -> float:
    return float(np.mean([row.method != "constant" for row in rows]))


def _verdict(missed: Sequence[str]) -> str:
    return f"MISSED: {', '.join(missed)}" if missed else "ok"


def print_random(rows: Iterable[Row], before: Iterable[Row]) -> None:
    """A line for every cell of random labels, with what the older version chose beside it."""
    groups, older = (_grouped(row for row in some if not row.share) for some in (rows, before))
    if not groups:
        return
    print("Random labels: losses as multiples of the constant's, on fresh records")
    print("kind     N     encoder   ε    draws  chosen   mean    largest  >1.05   seconds  verdict")
    missed = 0
    for key, mine in groups.items():
        kind, _, _, size, encoder, epsilon = key
        ratios = np.array([row.loss / row.constant for row in mine])
        mean = sum(row.loss for row in mine) / sum(row.constant for row in mine)
        chosen, harmed, worst = _chosen(mine), float((ratios > HARM).mean()), float(ratios.max())
        bars = [
            (chosen > MOST_CHOSEN, f"chosen > {MOST_CHOSEN:.0%}"),
            (mean > MOST_MEAN, f"mean > {MOST_MEAN}"),
            (size >= FEW and worst > HARM, f"largest > {HARM}"),
            (size < FEW and harmed > MOST_HARMED, f">{HARM} in more than {MOST_HARMED:.0%}"),
            (size < FEW and worst > WORST, f"largest > {WORST}"),
        ]
        words = [word for broken, word in bars if broken]
        missed += bool(words)
        was = f"  (older: chosen {_chosen(older[key]):.1%})" if key in older else ""
        seconds = np.mean([row.seconds for row in mine])
        print(
            f"{kind:8s} {size:<5d} {encoder:9s} {epsilon:<4g} {len(mine):5d}  {chosen:6.1%}  {mean:6.4f}  "
            f"{worst:7.3f}  {harmed:6.1%}  {seconds:7.2f}  {_verdict(words)}{was}"
        )
    print(f"{len(groups)} cells: {len(groups) - missed} ok, {missed} MISSED\n")


def print_power(rows: Iterable[Row], before: Iterable[Row]) -> None:
    """A line for every cell of weak signals. The true predictor has no bar: it is there for comparison."""
    groups, older = (_grouped(row for row in some if row.share) for some in (rows, before))
    fitted = {key: mine for key, mine in groups.items() if key[4] != TRUE}
    if not fitted:
        return
    print("Weak signals: share chosen, and mean losses as multiples of the constant's, on fresh records")
    print(
        "kind     signal    R²    N     encoder   ε    draws  chosen   true    known   loss    older   bar    verdict"
    )
    missed = 0
    for key, mine in fitted.items():
        kind, signal, share, size, encoder, epsilon = key
        truth = groups.get((*key[:4], TRUE, epsilon), [])
        past = {row.draw: row for row in older.get(key, [])}
        mine = [row for row in mine if not past or row.draw in past]  # the same draws on both sides
        if not mine:
            continue
        loss, constant = (float(np.mean([getattr(row, name) for row in mine])) for name in ("loss", "constant"))
        old = float(np.mean([past[row.draw].loss for row in mine])) if past else None
        better = constant if old is None else min(old, constant)
        words = [f"loss > {MOST_POWER} × the better"] if loss > MOST_POWER * better else []
        missed += bool(words)
        shown = f"{_chosen(truth):6.1%}  {np.mean([bool(row.known) for row in truth]):6.1%}" if truth else f"{'':14s}"
        past_ratio = "" if old is None else f"{old / constant:.4f}"
        print(
            f"{kind:8s} {signal:9s} {share:<5g} {size:<5d} {encoder:9s} {epsilon:<4g} {len(mine):5d}  "
            f"{_chosen(mine):6.1%}  {shown}  {loss / constant:6.4f}  {past_ratio:6s}  "
            f"{loss / better:6.4f} {_verdict(words)}"
        )
    print(f"{len(fitted)} cells: {len(fitted) - missed} ok, {missed} MISSED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--encoders", choices=tuple(ENCODERS), nargs="+")
    parser.add_argument("--epsilons", type=float, nargs="+")
    parser.add_argument("--kind", choices=KINDS, nargs="+", help="both; with --power, values")
    parser.add_argument("--power", action="store_true", help="weak signals instead of random labels")
    parser.add_argument("--signals", choices=tuple(SIGNALS), nargs="+", default=["linear", "product"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="every draw, one line each; what is there is not computed again")
    parser.add_argument("--table", type=Path, help="print the tables of this file, and compute nothing")
    parser.add_argument("--against", type=Path, help="a file that an older version wrote")
    options = parser.parse_args()
    before = read(options.against) if options.against else []
    if options.table:
        rows = read(options.table)
    else:
        epsilons = tuple(options.epsilons or (POWER_EPSILONS if options.power else EPSILONS))
        rows = run(cells_of(options), epsilons, options.jobs, options.json)
    print_random(rows, before)
    print_power(rows, before)


if __name__ == "__main__":
    main()
