"""Randomised response between levels: the report of a survey, unbiased for every population in the region.

**Guarantee.** For any two inputs whatsoever and any report r, P[r | φ] ≤ e^ε · P[r | φ'], with e^ε the largest ratio
a/b of a group (`level_groups.py`).

**Why.** (1) `region.enforce` maps every input to whole grid steps inside a box. (2) The group that is reported is drawn
at random, by weights in the release, without looking at the record. (3) Given the group, the probability of an output
differs by a factor of at most the group's a/b between any two members of the box, as `level_groups.py` proves. (4) The
report names the group, whose chance cancels. (5) ln of the largest ratio of all groups is certified in whole numbers.
All draws are made in whole numbers too, from the operating system's bits.

**What it is for.** Rounding up has probability (k − l)/(l' − l), so P[r | φ] is linear in every latent between two
levels: values of the outputs that average to the latents at all levels do so everywhere in the box. Their mean over
many reports is then the population's mean, whatever the population.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from taskveil.arrays import EXACT, Floats, Integers, blocks, owned
from taskveil.client import entropy
from taskveil.client.mechanisms.base import Mechanism
from taskveil.client.mechanisms.level_groups import MOST_ENTRIES, BlockGroup, LevelGroup, PlaneGroup, worst
from taskveil.client.mechanisms.sum_codebook import MOST_CODEWORDS
from taskveil.client.promise import exact_log_ratio, log_ratio
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelResponse(Mechanism):
    """ε-LDP for every input, e^ε the largest ratio of two probabilities of an output in one of the groups.

    A report is one whole number below 2^53: the outputs of all groups numbered through, the first group's first.
    """

    region: BoxRegion
    groups: tuple[LevelGroup | BlockGroup | PlaneGroup, ...]

    def __post_init__(self) -> None:
        if not 1 <= sum(group.entries for group in self.groups) <= MOST_ENTRIES:
            raise MechanismError(
                f"there is 1 group or more, and all tables together have at most {MOST_ENTRIES} entries."
            )
        if sum(group.chance for group in self.groups) >= EXACT:
            raise MechanismError(
                "the chances of all groups add up to 2^53 or more: divide them all by the same number."
            )
        if self.outputs >= EXACT:
            raise MechanismError("all groups together have 2^53 outputs or more: use fewer groups or smaller planes.")
        for group in self.groups:
            group.check(self.region)

    @property
    def outputs(self) -> int:
        """How many outputs all groups have."""
        return sum(group.outputs for group in self.groups)

    @cached_property
    def _thresholds(self) -> Integers:
        """(groups,): how many of the draws choose this group or one before it."""
        return owned(np.cumsum([group.chance for group in self.groups]))

    @cached_property
    def starts(self) -> Integers:
        """(groups,): the number of each group's first output."""
        sizes = np.array([group.outputs for group in self.groups])
        return owned(np.cumsum(sizes) - sizes)

    @cached_property
    def _worst(self) -> tuple[int, int]:
        """(largest, least) of the group with the largest ratio."""
        return worst(group.worst for group in self.groups)

    @property
    def blanket(self) -> float:
        """The part of a report that is the same for every record: the mean over the groups."""
        chances = [group.chance for group in self.groups]
        return sum(group.chance * group.blanket for group in self.groups) / sum(chances)

    @cached_property
    def epsilon(self) -> float:
        """The privacy loss between any two inputs: the least double certified to be at least ln(largest/least)."""
        return log_ratio(*self._worst)

    @property
    def exact_epsilon(self) -> Decimal:
        """ln(largest/least) in sixty digits."""
        return exact_log_ratio(*self._worst)

    @cached_property
    def layout(self) -> Layout:
        """Code numbers from 0 to the number of all groups' outputs − 1."""
        return Layout(low=(0,), high=(self.outputs - 1,))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, 1)."""
        k = self.region.enforce(latents)
        drawn = entropy.uniform_below(int(self._thresholds[-1]), len(k))
        drawn = np.searchsorted(self._thresholds, drawn, side="right")
        reports = np.empty((len(k), 1), dtype=np.int64)
        for number in np.unique(drawn).tolist():
            group, members = self.groups[number], np.flatnonzero(drawn == number)
            for rows in blocks(len(members), group.width):
                some = members[rows]
                reports[some, 0] = self.starts[number] + group.draw(k[some])
        return reports

    def chances(self, latents: Floats) -> Floats:
        """(M, outputs): P[report | latent] of every report there is, for any floats (M, d).

        Only where all reports can be listed; `log_likelihood` answers for some reports of any number.
        """
        if self.outputs > MOST_ENTRIES:
            raise MechanismError(f"{self.outputs} reports are too many to list: ask for the likelihood of some.")
        k, draws = self.region.enforce(latents), int(self._thresholds[-1])
        return np.concatenate([group.chance / draws * group.chances(k) for group in self.groups], axis=1)

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln of the probability of the report's group times that of the output once the group is drawn."""
        said, k, draws = np.empty((len(reports), len(latents))), self.region.enforce(latents), int(self._thresholds[-1])
        drawn = np.searchsorted(self.starts, reports[:, 0], side="right") - 1
        for number in np.unique(drawn).tolist():
            group, members = self.groups[number], np.flatnonzero(drawn == number)
            outputs = reports[members, 0] - self.starts[number]
            for some in blocks(len(k), max(group.entries, len(members))):
                likelihood = group.likelihood(outputs, k[some])
                said[members, some] = np.log(group.chance / draws * likelihood)
        return said

    def contrast(self, latents: Floats) -> Floats:
        """The probabilities of all reports, of which half the ℓ1 distance is the total variation; of very many
        reports, the bounded latents instead."""
        return self.chances(latents) if self.outputs <= MOST_CODEWORDS else self.bound(latents)

    def fault(self, k: Integers) -> str | None:
        """The first fault of a group in a sentence (a latent between no two levels, a favoured set of the wrong size);
        otherwise None."""
        return next((wrong for group in self.groups if (wrong := group.fault(k))), None)
