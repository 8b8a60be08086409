"""Populations with known truth for estimates under an assumption, draws of volunteers and reports, and a plain EM."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.veil.volunteers import Groups


@dataclass(frozen=True, kw_only=True)
class Population:
    """People in G groups that differ from volunteers in the groups' shares, unless `broken`.

    Attributes:
        codes, favoured: K and m.
        epsilon: codes that a device favours are e^ε times as likely as others.
        reports, volunteers: how many.
        classes: C for label shift, with class indicators as targets; None for cells, with attributes as targets.
        odds: groups' shares are multiplied by 1/odds, 1 or odds, and one of more than three is emptied; 1: no shift.
        broken: how much people's codes differ from those of volunteers of their group.
        together: a volunteer favours m neighbouring codes, and not m codes one by one.
    """

    codes: int
    favoured: int
    epsilon: float
    reports: int
    volunteers: int
    classes: int | None = None
    odds: float = 1.0
    broken: float = 0.0
    together: bool = False
    seed: int = 0
    sizes: Integers = field(init=False)
    logits: Floats = field(init=False)
    people: Floats = field(init=False)
    shares: Floats = field(init=False)
    means: Floats = field(init=False)
    base: float = field(init=False)
    extra: float = field(init=False)
    truth: Floats = field(init=False)
    chances: Floats = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        groups = self.classes or min(self.codes, max(2, self.volunteers // 15))
        sizes = np.maximum(10, np.round(rng.dirichlet(np.full(groups, 3.0)) * self.volunteers)).astype(np.int64)
        logits = rng.normal(0, 1.5 if self.classes else 1.0, (groups, self.codes))
        if not self.classes:  # most people of a cell favour its code
            own = np.arange(groups)
            logits[own, own] += 3.5 + 0.7 * np.log(self.codes) * (self.favoured == 1)
        shares = sizes / sizes.sum() * (self.odds ** rng.choice([-1.0, 0.0, 1.0], groups))
        if self.odds != 1 and groups > 3:
            shares[rng.integers(groups)] = 0.0
        means = np.c_[
            rng.normal(0, 0.6, (groups, 2)), rng.beta(1, 3, (groups, 2)), rng.beta(0.2, 2, (groups, 1)).clip(0.02)
        ]
        scale = self.favoured * np.exp(self.epsilon) + self.codes - self.favoured
        for name, value in {
            "sizes": sizes,
            "logits": logits,
            "people": logits + self.broken * rng.normal(size=logits.shape),
            "shares": shares / shares.sum(),
            "means": np.eye(groups) if self.classes else means,
            "base": 1 / scale,
            "extra": (np.exp(self.epsilon) - 1) / scale,
        }.items():
            object.__setattr__(self, name, value)
        if self.favoured == 1:
            chance = np.exp(self.people) / np.exp(self.people).sum(axis=1, keepdims=True)
        else:
            chance = np.array([self.sets(row, 40000, rng).mean(axis=0) for row in self.people])
        object.__setattr__(self, "truth", self.shares @ self.means)
        object.__setattr__(self, "chances", self.base + self.extra * self.shares @ chance)

    def sets(self, logits: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Which codes each of so many people favours, (count, K) of zeros and ones."""
        if self.favoured == 1:
            chances = np.exp(logits - logits.max())
            return np.eye(self.codes)[rng.choice(self.codes, count, p=chances / chances.sum())]
        noisy = logits + rng.gumbel(size=(count, self.codes))
        if self.together:
            first = noisy.argmax(axis=1)[:, None] + np.arange(self.favoured)
            best = first % self.codes
        else:
            best = np.argpartition(-noisy, self.favoured - 1, axis=1)[:, : self.favoured]
        found = np.zeros((count, self.codes))
        np.put_along_axis(found, best, 1.0, axis=1)
        return found

    def draw(self, rng: np.random.Generator) -> tuple[Integers, Groups]:
        """Counts (K,) of people's reports, and volunteers."""
        counts = rng.multinomial(self.reports, self.chances / self.chances.sum())
        favoured = np.array(
            [self.sets(row, size, rng).mean(axis=0) for row, size in zip(self.logits, self.sizes, strict=True)]
        )
        means, variances = self.means.copy(), np.zeros(self.means.shape)
        if not self.classes:
            for group, size in enumerate(self.sizes):
                number = self.means[group, :2] + 0.8 * rng.normal(size=(size, 2))
                values = np.c_[number, rng.random((size, 3)) < self.means[group, 2:]]
                means[group], variances[group] = values.mean(axis=0), values.var(axis=0)
        return counts, Groups(counts=self.sizes, measured=favoured, means=means, variances=variances)


def plain_em(counts: Floats, chances: Floats, steps: int = 20000) -> Floats:
    """Maximum-likelihood shares (B, G) of `counts` (B, K) with `chances` (B, G, K), by the textbook's EM."""
    observed = counts / counts.sum(axis=1, keepdims=True)
    shares = np.full(chances.shape[:2], 1 / chances.shape[1])
    for _ in range(steps):
        ratio = observed / np.einsum("bg,bgk->bk", shares, chances)
        better = shares * (chances @ ratio[..., None])[..., 0]
        done = np.abs(better - shares).max() < 1e-8
        shares = better
        if done:
            break
    return shares
