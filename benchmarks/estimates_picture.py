"""The picture of docs/estimates.md: truth, volunteers, naive decoding and estimates with intervals.

    TASKVEIL_DATA=folder python benchmarks/estimates_picture.py [PNG, by default docs/estimates.png]

1,500 people who chose themselves, those with few children mostly, are the volunteers; all others send one report of
ε = 2 each. The data is `field/fair.csv` of the data folder, eight attributes; without it, a simulation of the same
shape. Reports come from the operating system's entropy, so that every run is another collection.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.style import figure, save

EPSILON = 2.0
VOLUNTEERS = 1500


def records() -> pd.DataFrame:
    """Everybody."""
    path = Path(os.environ.get("TASKVEIL_DATA", "")) / "field" / "fair.csv"
    if path.is_file():
        return pd.read_csv(path).iloc[:, :8].astype(float)
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(8, 8)) / 3 + np.eye(8)
    table = np.round(rng.normal(size=(6366, 8)) @ mixing.T * 2 + 4)
    return pd.DataFrame(table, columns=[*"abc", "children", *"efgh"])


def split(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Volunteers, who come the less the more children they have, and all others."""
    rng = np.random.default_rng(0)
    children = table["children"]
    keen = 1.0 / (1.0 + np.exp(2.0 * (children - children.mean()) / children.std()))
    chosen = rng.choice(len(table), VOLUNTEERS, replace=False, p=keen / keen.sum())
    return table.iloc[chosen], table.drop(index=table.index[chosen])


def draw(path: Path) -> Path:
    """Both tasks side by side, everything in standard deviations from the truth."""
    table = records()
    domain = tv.Box(table.min().to_numpy(), table.max().to_numpy())  # what the questionnaire allows, not the volunteers
    volunteers, people = split(table)
    truth, spread = people.mean().to_numpy(), people.std().to_numpy()
    weights = np.diag(1.0 / volunteers.std())
    places = np.arange(len(truth))[::-1]
    fig, axes = figure(2, height=4.2, width=4.6)
    for ax, task in zip(axes, (tv.LinearTask(weights), tv.MeanTask(weights)), strict=True):
        veil = tv.design(volunteers, task, epsilon=EPSILON, domain=domain)
        reports = veil.privatize(people)
        estimate = tv.estimate(veil, reports)
        found = np.array([interval[1:] for interval in estimate.attributes])
        mean, low, high = ((found - truth[:, None]) / spread[:, None]).T
        ax.axvline(0.0, color="black", linewidth=1.2, label="truth")
        ax.plot((volunteers.mean() - truth) / spread, places, "s", color="#c0392b", markersize=5, label="volunteers")
        if isinstance(task, tv.LinearTask):
            naive = (np.asarray(veil.decode(reports)).mean(axis=0) - truth) / spread
            ax.plot(naive, places, "x", color="#d35400", label="mean of decoded reports")
        ax.errorbar(mean, places, xerr=[mean - low, high - mean], fmt="o", color="#1f5fbf", label="estimate, 95%")
        ax.set_yticks(places, people.columns if ax is axes[0] else [""] * len(places))
        ax.set_title(f"{type(task).__name__}, ε = {EPSILON:g}", fontsize=10)
        ax.set_xlabel("standard deviations from the truth")
        ax.grid(axis="y", visible=False)
        print(estimate.table(), "\n")
    limit = max(abs(end) for ax in axes for end in ax.get_xlim())
    for ax in axes:
        ax.set_xlim(-limit, limit)
    fig.suptitle(f"{len(people):,} reports, {VOLUNTEERS:,} volunteers who chose themselves", fontsize=10)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return save(fig, path)


if __name__ == "__main__":
    home = Path(__file__).parents[1] / "docs" / "estimates.png"
    print(f"picture: {draw(Path(sys.argv[1]) if len(sys.argv) > 1 else home)}")
