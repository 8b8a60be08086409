"""Broken mechanisms, each with the one fault its name says. The sound ones they were made from are in `sound`.

All take records in [−1, 1]^d. Unless the fault is the noise itself, noise is drawn exactly and from the operating
system, so that nothing but the fault can give an exhibit away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import taskveil as tv
from auditing import balls, blocks, gaussians, leaks, levels, mixed
from auditing.exhibits import (
    STEP,
    WIDE,
    Buffered,
    ForkBlind,
    LastTermInTheClear,
    LoudSum,
    Overweight,
    StageByStage,
    clipping_after_noise,
    codebook_veil,
    drawn_once_for_all,
    favoured_size_varies,
    fixed_seed,
    float_laplace,
    gaussian,
    global_generator,
    laplace,
    latent_off_the_grid,
    nan_passed_through,
    nan_refused,
    no_clipping,
    on_grid,
    one_draw_for_all_columns,
    one_draw_for_all_rows,
    overweight,
    overweight_callable,
    rounding_charged_once,
    sensitivity_of_the_batch,
    silent_without_entropy,
    stage,
    sum_veil,
    truncated_noise,
    zeros_not_randomised,
)


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """Something to audit. `by`: what must be among the things that catch it ("bound" or the name of a check).

    `trials` are enough to catch it; `most` are as many as it is asked for in any case, where a report takes long.
    """

    name: str
    make: Callable[[], Any]
    epsilon: float
    by: tuple[str, ...] = ()
    dim: int = 1
    delta: float = 0.0
    trials: int = 100_000
    most: int = 10**9
    long_only: bool = False
    mixed: bool = False

    def records(self) -> Any:
        if self.mixed:
            return mixed.records()
        return np.random.default_rng(3).uniform(-1, 1, size=(50, self.dim))

    def _claim(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "records": self.records()}

    def audit(self, **options: Any) -> Any:
        what = self.make()
        given = {} if isinstance(what, tv.Veil) else self._claim()
        trials = min(options.pop("trials", self.trials), self.most)
        return tv.audit(what, trials=trials, **given, **options)


def caught_by(found: Any) -> tuple[str, ...]:
    """ "bound" if the attack disproved the claim, and the names of failed checks."""
    bound = ("bound",) if found.epsilon_lower > found.epsilon_claimed else ()
    return bound + tuple(check.name for check in found.checks if not check.passed)


BROKEN = [
    *(
        Exhibit(
            name=f"noise scale over √2, ε = {epsilon:g}",
            make=lambda epsilon=epsilon: laplace(WIDE / (math.sqrt(2) * epsilon)),
            epsilon=epsilon,
            by=("bound",),
        )
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ),
    Exhibit(
        name="noise scale over √2, ε = 8",
        make=lambda: laplace(WIDE / (math.sqrt(2) * 8)),
        epsilon=8.0,
        by=("bound",),
        trials=1_000_000,
    ),
    *(
        Exhibit(
            name=f"Gaussian noise over √2, ε = {epsilon:g}",
            make=lambda epsilon=epsilon: gaussians.gaussian_veil(epsilon, 1e-2, kind=gaussians.Quiet),
            epsilon=epsilon,
            delta=1e-2,
            by=("bound",),
            trials=trials,
        )
        for epsilon, trials in {0.5: 1_500_000, 1.0: 500_000, 2.0: 500_000, 4.0: 500_000}.items()
    ),
    # The smaller δ is, the rarer the reports that give too little noise away, and the more trials it takes.
    *(
        Exhibit(
            name=f"Gaussian noise over √2, ε = {epsilon:g}, δ = 0.0001",
            make=lambda epsilon=epsilon: gaussians.gaussian_veil(epsilon, 1e-4, kind=gaussians.Quiet),
            epsilon=epsilon,
            delta=1e-4,
            by=("bound",),
            trials=6_000_000,
            long_only=True,
        )
        for epsilon in (1.0, 2.0, 4.0)
    ),
    Exhibit(
        name="a ball enforced as a cube",
        make=lambda: gaussians.gaussian_veil(2.0, 1e-3, dim=4, region=gaussians.Cube),
        epsilon=2.0,
        delta=1e-3,
        by=("bound", "latents inside their set"),
        dim=4,
    ),
    Exhibit(name="noise scale × 0.7", make=lambda: laplace(0.7 * WIDE), epsilon=1.0, by=("bound",)),
    Exhibit(name="variance used as scale", make=lambda: laplace((2.0 / 4.0) ** 2 / STEP), epsilon=4.0, by=("bound",)),
    Exhibit(name="no clipping", make=lambda: no_clipping, epsilon=1.0, by=("bound",)),
    Exhibit(name="clipping after noise", make=lambda: clipping_after_noise, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="sensitivity of the evaluated records", make=lambda: sensitivity_of_the_batch, epsilon=1.0, by=("bound",)
    ),
    Exhibit(
        name="rounding charged once",
        make=lambda: rounding_charged_once,
        epsilon=2.0,
        by=("bound",),
        dim=4,
        trials=400_000,
    ),
    Exhibit(name="ℓ2 used for ℓ1", make=lambda: laplace(2 * WIDE / 2), epsilon=2.0, by=("bound",), dim=4),
    Exhibit(
        name="a sum randomised term by term",
        make=lambda: sum_veil(2.0, StageByStage),
        epsilon=2.0,
        by=("bound",),
        dim=2,
    ),
    Exhibit(
        name="a sum with √2 of its budget",
        make=lambda: sum_veil(2.0, LoudSum),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="a sum's last term in the clear",
        make=lambda: sum_veil(2.0, LastTermInTheClear),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=20_000,
    ),
    Exhibit(
        name="a table with a column 1% above e^ε",
        make=lambda: levels.level_veil(1.0, levels.Understated),
        epsilon=1.0,
        by=("claim covers the parameters",),
        dim=2,
        trials=2_000,
        long_only=True,
    ),
    Exhibit(
        name="tables with √2 of their budget",
        make=lambda: levels.level_veil(2.0, levels.LoudTables),
        epsilon=2.0,
        by=("bound",),
        dim=2,
    ),
    Exhibit(
        name="a group chosen by the record",
        make=lambda: levels.level_veil(2.0, levels.TellingGroup),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=20_000,
    ),
    Exhibit(
        name="rows of a table with sums of their own",
        make=lambda: levels.level_veil(2.0, groups=levels.UnevenRows),
        epsilon=2.0,
        by=("bound",),
        dim=2,
    ),
    Exhibit(
        name="a ball's response with √2 of its budget",
        make=lambda: balls.ball_veil(2.0, balls.LoudBall),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=20_000,
    ),
    Exhibit(
        name="a ball's seed chosen by the record",
        make=lambda: balls.ball_veil(2.0, balls.SeedOfTheRecord),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="a ball's favoured set with a member twice",
        make=lambda: balls.ball_veil(2.0, balls.RepeatedMembers),
        epsilon=2.0,
        by=("latents inside their set",),
        dim=2,
        trials=2_000,
    ),
    Exhibit(
        name="a ball's centre favoured beside the nearest codewords",
        make=lambda: balls.ball_veil(2.0, balls.CentreAndDirection),
        epsilon=2.0,
        by=("bound",),
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="a ball's response 1% above e^ε",
        make=lambda: balls.ball_veil(1.0, balls.Understated),
        epsilon=1.0,
        by=("claim covers the parameters",),
        dim=2,
        trials=2_000,
    ),
    Exhibit(
        name="a block with a residue twice",
        make=lambda: blocks.block_veil(1.0, groups=blocks.Unchecked, blocks=blocks.REPEATED),
        epsilon=1.0,
        by=("bound", "latents inside their set"),
        dim=2,
        trials=60_000,
    ),
    Exhibit(
        name="a response of blocks 1% above e^ε",
        make=lambda: blocks.block_veil(1.0, blocks.Understated),
        epsilon=1.0,
        by=("claim covers the parameters",),
        dim=2,
        trials=2_000,
        long_only=True,
    ),
    Exhibit(
        name="blocks with √2 of their budget",
        make=lambda: blocks.block_veil(2.0, blocks.LoudResponse),
        epsilon=2.0,
        by=("bound",),
        dim=2,
    ),
    Exhibit(
        name="a block chosen after a look at the record",
        make=lambda: blocks.block_veil(1.0, groups=blocks.TellingBlock),
        epsilon=1.0,
        by=("bound",),
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="fewer favoured outputs for one row",
        make=lambda: blocks.block_veil(2.0, groups=blocks.NarrowerForOne),
        epsilon=2.0,
        by=("bound",),
        dim=2,
    ),
    Exhibit(
        name="a form chosen after a look at the record",
        make=lambda: blocks.plane_veil(1.0, blocks.TellingForm),
        epsilon=1.0,
        by=("bound",),
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="one draw for all rows",
        make=lambda: one_draw_for_all_rows,
        epsilon=1.0,
        by=("fresh noise for every report",),
        trials=20_000,
    ),
    Exhibit(name="one draw for all columns", make=lambda: one_draw_for_all_columns, epsilon=1.0, by=("bound",), dim=2),
    Exhibit(
        name="noise drawn once for all reports",
        make=lambda: drawn_once_for_all(1.0),
        epsilon=1.0,
        by=("bound",),
    ),
    Exhibit(name="float Laplace added to a float", make=lambda: float_laplace, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="exact noise added to a latent off the grid",
        make=lambda: latent_off_the_grid,
        epsilon=1.0,
        by=("bound",),
    ),
    Exhibit(
        name="NaN passed through", make=lambda: nan_passed_through, epsilon=1.0, by=("bound", "reports on the grid")
    ),
    Exhibit(name="NaN refused", make=lambda: nan_refused, epsilon=1.0, by=("reports on the grid",), trials=20_000),
    Exhibit(name="zeros not randomised", make=lambda: zeros_not_randomised, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="a fixed seed",
        make=lambda: fixed_seed,
        epsilon=1.0,
        by=("no np.random, no random", "fresh noise for every report"),
        trials=20_000,
    ),
    Exhibit(
        name="numpy's global generator",
        make=lambda: global_generator,
        epsilon=1.0,
        by=("no np.random, no random", "no noise shared by processes"),
        trials=20_000,
    ),
    Exhibit(
        name="codebook with a 1% above e^ε·b",
        make=lambda: codebook_veil(stage(2, 1, 1.0, 1.0, overweight()), kind=Overweight),
        epsilon=1.0,
        by=("claim covers the parameters",),
        trials=20_000,
    ),
    Exhibit(
        name="the same, as a black box",
        make=lambda: overweight_callable,
        epsilon=1.0,
        by=("bound",),
        trials=8_000_000,
        long_only=True,
    ),
    Exhibit(name="favoured-set size varies", make=lambda: favoured_size_varies, epsilon=1.0, by=("bound",)),
    Exhibit(name="Gaussian noise sold as pure ε", make=lambda: gaussian, epsilon=1.0, by=("bound",)),
    Exhibit(name="noise cut off at three scales", make=lambda: truncated_noise, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="noise drawn ahead",
        make=Buffered,
        epsilon=1.0,
        by=("no noise shared by processes",),
        trials=20_000,
    ),
    Exhibit(
        name="a keyed stream copied by fork",
        make=ForkBlind,
        epsilon=1.0,
        by=("no noise shared by processes",),
        trials=20_000,
    ),
    Exhibit(
        name="no noise when entropy fails",
        make=lambda: silent_without_entropy,
        epsilon=1.0,
        by=("no entropy, no report",),
        trials=20_000,
    ),
    Exhibit(name="disjoint supports", make=lambda: lambda X: (on_grid(X) > 0) * 1.0, epsilon=4.0, by=("bound",)),
    *(
        Exhibit(
            name=f"batches under {rows} rows in the clear",
            make=lambda rows=rows: leaks.small_batches_in_the_clear(rows),
            epsilon=1.0,
            by=("single records and small batches",),
            trials=20_000,
        )
        for rows in (2, 64)
    ),
    Exhibit(
        name="single records in the clear, ε = 5",
        make=lambda: leaks.small_batches_in_the_clear(2),
        epsilon=5.0,
        by=("single records and small batches",),
        trials=1_000_000,
        long_only=True,
    ),
    Exhibit(
        name="first row of every batch in the clear",
        make=lambda: leaks.first_row_in_the_clear,
        epsilon=1.0,
        by=("single records and small batches",),
        trials=20_000,
    ),
    Exhibit(
        name="last row of every batch in the clear",
        make=lambda: leaks.last_row_in_the_clear,
        epsilon=1.0,
        by=("single records and small batches",),
        trials=20_000,
    ),
    *(
        Exhibit(
            name=f"noise on a grid {times} times too coarse",
            make=lambda times=times: leaks.coarse_noise(times),
            epsilon=1.0,
            by=("bound",),
        )
        for times in (3, 7)
    ),
    Exhibit(name="cents with noise in three cents", make=lambda: leaks.coarse_decimals, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="signed zero in one column",
        make=lambda: leaks.signed_zero,
        epsilon=1.0,
        by=("bound",),
    ),
    Exhibit(name="1 < |x| < 10⁴ not clipped", make=lambda: leaks.clipped_far_out_only, epsilon=1.0, by=("bound",)),
    Exhibit(
        name="2 < |x| < 3 echoed",
        make=lambda: leaks.echoed_between_two_and_three,
        epsilon=1.0,
        by=("bound", "no record repeated"),
    ),
    Exhibit(
        name="opposite noise in neighbouring rows",
        make=lambda: leaks.opposite_noise,
        epsilon=1.0,
        by=("rows and calls apart",),
        trials=20_000,
    ),
    Exhibit(
        name="every 1,000th call in the clear",
        make=leaks.every_thousandth_call_in_the_clear,
        epsilon=1.0,
        by=("no record repeated",),
    ),
    Exhibit(
        name="a leak in the bytes of a Client only",
        make=leaks.leaks_through_a_client,
        epsilon=1.0,
        by=("through a Client",),
        trials=20_000,
    ),
    *(
        Exhibit(name=name, make=lambda client=client: client, epsilon=1.0, by=by, mixed=True, trials=10_000)
        for name, client, by in (
            ("an error where a number is text", mixed.raises_on_text, ("reports on the grid",)),
            ("records with a hole dropped", mixed.drops_holes, ("reports on the grid",)),
            ("an unknown category in the clear", mixed.unknown_in_the_clear, ("bound",)),
            ("holes in the clear", mixed.hole_in_the_clear, ("bound",)),
            ("text for a number in the clear", mixed.in_another_unit, ("bound",)),
            ("bounds of the record itself", mixed.bounds_of_the_record, ("bound",)),
            ("one byte more for long names", mixed.longer_for_long_names, ("reports on the grid",)),
        )
    ),
    *(
        Exhibit(name=name, make=make, epsilon=1.0, by=("reports on the grid",), trials=4_000, long_only=True)
        for name, make in (
            ("a veil that refuses unknown categories", lambda: mixed.mixed_veil(mixed.Strict)),
            ("a veil that drops holes", lambda: mixed.mixed_veil(kind=mixed.WithoutHoles)),
        )
    ),
]
