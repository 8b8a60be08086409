"""What one wild cell among 300 records costs: the share of the design's gain that is left, on fresh and clean records.

The gain is the loss of knowing nothing minus the loss of the design. Once the domain is given, once it is not; 100% is
the same design without the wild cell. The bar: 95%.
"""

from __future__ import annotations

import warnings

import numpy as np
from torch import nn

import taskveil as tv
from taskveil.arrays import Floats
from taskveil.errors import WildRecordWarning

RECORDS, FRESH = 300, 10_000
SPREADS = np.array([2.0, 1.5, 1.0, 0.7, 0.5])
WILDNESS = (10.0, 20.0, 100.0, 1e9, 1e300)
"""In standard deviations of the attribute."""


def gaussian(rng: np.random.Generator, count: int) -> Floats:
    return rng.normal(size=(count, len(SPREADS))) * SPREADS


def gain(
    volunteers: Floats, task: tv.LinearTask | tv.ModelTask, clean: Floats, fresh: Floats, **options: object
) -> float:
    """What reports are worth on fresh records; the constant answer is that of clean volunteers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WildRecordWarning)
        veil = tv.design(volunteers, task, **options)  # type: ignore[arg-type]
    return task.constant_loss(clean, None, fresh, None) - veil.loss(fresh).mean


def wild_cell_table() -> list[str]:
    """One line for every task, method, budget and wildness."""
    rng = np.random.default_rng(0)
    clean, fresh = gaussian(rng, RECORDS), gaussian(rng, FRESH)
    box = tv.Box(-5 * SPREADS, 5 * SPREADS)
    identity, mixing = tv.LinearTask(np.eye(5)), tv.LinearTask(rng.normal(size=(3, 5)))
    model = tv.ModelTask(_network(rng))
    lines = [f"{'task':10} {'method':11} {'ε':>3} {'wild cell':>10} {'domain given':>13} {'not given':>10}"]
    for name, task, method, epsilon, wildness in (
        ("identity", identity, "codebook", 2.0, WILDNESS),
        ("identity", identity, "task_aware", 2.0, WILDNESS),
        ("random K", mixing, "codebook", 2.0, WILDNESS[1::2]),
        ("random K", mixing, "task_aware", 5.0, WILDNESS),
        ("network", model, "codebook", 2.0, WILDNESS[1::2]),
    ):
        options = {"method": method, "epsilon": epsilon}
        of_clean = [gain(clean, task, clean, fresh, **options, domain=domain) for domain in (box, None)]
        for size in wildness:
            row, column = rng.integers(RECORDS), rng.integers(len(SPREADS))
            wild = clean.copy()
            wild[row, column] = size * SPREADS[column]
            kept = [
                gain(wild, task, clean, fresh, **options, domain=domain) / whole
                for domain, whole in zip((box, None), of_clean, strict=True)
            ]
            lines.append(f"{name:10} {method:11} {epsilon:3g} {size:9g}σ {kept[0]:13.1%} {kept[1]:10.1%}")
    return lines


def _network(rng: np.random.Generator) -> nn.Module:
    """A small network with fixed weights, its own answers being the truth."""
    layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    for parameter in layers.parameters():
        parameter.data.copy_(parameter.data.new_tensor(rng.normal(size=parameter.shape) / parameter.shape[-1] ** 0.5))
    return layers


def main() -> None:
    print("\n".join(wild_cell_table()))


if __name__ == "__main__":
    main()
