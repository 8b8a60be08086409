"""What an estimate assumes, in words that whoever signs it can judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Laplace, LevelResponse
from taskveil.server.estimates.calibration import Calibrated
from taskveil.veil import Veil

HARDLY = 0.1
"""Of what a tilt does to a mean, reports see so much where they hardly see it."""
_NAMED = 8  # are named in words


def hardly_seen(
    calibrated: Calibrated, veils: Sequence[Veil], targets: Floats, names: Sequence[str]
) -> tuple[str, ...]:
    """Names of those means of `targets` (V, t) of which reports say next to nothing: the volunteers' word stands."""
    if all(isinstance(veil.mechanism, LevelResponse) for veil in veils):
        return ()
    return tuple(name for name, seen in zip(names, calibrated.seen(targets), strict=True) if seen < HARDLY)


def assumption(calibrated: Calibrated, veils: Sequence[Veil], targets: Floats, names: Sequence[str]) -> str:
    """What the intervals of an estimate from these veils rest on, for the means of `targets` (V, t) of these names."""
    if all(isinstance(veil.mechanism, LevelResponse) for veil in veils):
        return (
            "Nothing is assumed about the people: reports are unbiased for every record inside the domain. A record "
            "outside counts as the nearest one inside; a design without a given domain took the volunteers' own range."
        )
    volunteers = len(calibrated.weights)
    said = (
        f"Within a cell (people whose devices would report the same, if they reported the truth) people are like those "
        f"of the {volunteers:,} volunteers in that cell, and between cells they differ from them by a tilt: every "
        f"volunteer counts more or less by a factor exp(λ·z) of attributes and answers. Of {calibrated.z.shape[1]} "
        f"such directions reports see {calibrated.visible:.1f}."
    )
    hardly = hardly_seen(calibrated, veils, targets, names)
    if hardly:
        more = f" and {len(hardly) - _NAMED} more" if len(hardly) > _NAMED else ""
        said += f" They hardly see {', '.join(hardly[:_NAMED])}{more}: what is said of these is the volunteers' word."
    if calibrated.spread > 0:
        said += (
            " Because the reports show that people differ, intervals also allow for as large a difference in "
            "directions that reports do not see, and for tilts that are not straight."
        )
    clipped = [
        _clipped(calibrated, veil.mechanism, veil.reference.latents)
        for veil in veils
        if isinstance(veil.mechanism, Laplace) and veil.reference is not None
    ]
    return " ".join([said, *clipped])


def _clipped(calibrated: Calibrated, mechanism: Laplace, latents: Floats) -> str:
    """How much bounding can matter: who is bounded, and by how much on average."""
    moved = np.abs(mechanism.bound(latents) - latents)
    beyond = moved > mechanism.region.step
    spread = latents.std(axis=0)
    by = (calibrated.weights @ (moved * beyond)) / np.where(spread > 0, spread, 1.0)
    return (
        f"Bounding before the noise concerns {calibrated.weights @ beyond.any(axis=1):.1%} of the people, if they are "
        f"as estimated, and moves a reported number by {by.max():.2g} of its standard deviation on average at most; it "
        "is allowed for as far as volunteers and people are bounded alike."
    )
