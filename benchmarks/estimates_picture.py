"""The picture of docs/guides/estimates.md: what is measured and what is assumed, beside the truth.

    python benchmarks/estimates_picture.py [PNG, by default docs/guides/estimates.png]

2,000 volunteers and three populations of 20,000 people: with more tickets, with fewer renewals, and ten years older.
Each sends one report of a model release and one of a means release, ε = 3 each, drawn anew in every run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from taskveil.style import figure, save

NAMES = ["age", "tickets"]
ROWS = ("age", "tickets", "share of labels: renews = yes")
COLOURS = {"measured by a means release": "#1f5fbf", 'assume="cells"': "#d35400", 'assume="labels"': "#c0392b"}
rng = np.random.default_rng(0)


def customers(count: int, mix: tuple[float, ...] = (0.4, 0.35, 0.25), older: float = 0.0) -> pd.DataFrame:
    """Whether customers renew depends on their tickets alone."""
    tickets = rng.choice(3, count, p=mix)
    age = (50 - 5 * tickets + older + rng.normal(0, 10, count)).clip(18, 90)
    renews = rng.random(count) < np.array([0.95, 0.6, 0.1])[tickets]
    return pd.DataFrame({"age": age, "tickets": tickets, "renews": np.where(renews, "yes", "no")})


def draw(path: Path) -> Path:
    """One panel for each population; everything in the volunteers' standard deviations from the truth."""
    volunteers, many = customers(2000), customers(60_000)
    X, y = volunteers[NAMES], volunteers["renews"]
    model = tv.design(X, tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy"), y=y, epsilon=3.0)
    means = tv.design(X, tv.MeanTask(np.diag(1 / X.std())), epsilon=3.0, domain=tv.Box([18, 0], [90, 2]))
    fewer = [many[many["renews"] == answer][:count] for answer, count in (("yes", 8000), ("no", 12_000))]
    populations = {
        "more tickets: cells holds": customers(20_000, (0.2, 0.3, 0.5)),
        "fewer renewals: labels holds": pd.concat(fewer),
        "ten years older: neither holds": customers(20_000, older=10.0),
    }
    fig, axes = figure(3, height=3.4, width=3.6)
    for ax, (title, people) in zip(axes, populations.items(), strict=True):
        reports = model.privatize(people[NAMES])
        estimates = [
            tv.estimate(means, means.privatize(people[NAMES])),
            *(tv.estimate(model, reports, assume=assume) for assume in ("cells", "labels")),
        ]
        renewing = [(table["renews"] == "yes").to_numpy(float) for table in (people, volunteers)]
        truth = [*people[NAMES].mean(), renewing[0].mean()]
        spread = [*X.std(), renewing[1].std()]
        own = (np.array([*X.mean(), renewing[1].mean()]) - truth) / spread
        ax.axvline(0.0, color="black", linewidth=1.2, label="truth")
        ax.plot(own, -np.arange(3.0), "s", color="#5d6d7e", markersize=5, label="volunteers")
        for place, ((label, colour), estimate) in enumerate(zip(COLOURS.items(), estimates, strict=True)):
            rows = {row.name: row for row in (*estimate.attributes, *estimate.shares)}
            for row, name in enumerate(ROWS):
                if name in rows:
                    mean, low, high = (np.array(rows[name][1:4]) - truth[row]) / spread[row]
                    reach = [[mean - low], [high - mean]]
                    ax.errorbar(
                        mean, -row - 0.22 * (place - 1), xerr=reach, fmt="o", markersize=4, color=colour,
                        label=label if name == next(known for known in ROWS if known in rows) else None,
                    )  # fmt: skip
        ax.set_yticks(-np.arange(3.0), ["age", "tickets", "renews = yes"] if ax is axes[0] else [""] * 3)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("standard deviations from the truth")
        ax.grid(axis="y", visible=False)
    limit = max(abs(end) for ax in axes for end in ax.get_xlim())
    for ax in axes:
        ax.set_xlim(-limit, limit)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return save(fig, path)


if __name__ == "__main__":
    home = Path(__file__).parents[1] / "docs" / "guides" / "estimates.png"
    print(f"picture: {draw(Path(sys.argv[1]) if len(sys.argv) > 1 else home)}")
