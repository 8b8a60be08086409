"""The task of estimating a population's means."""

from __future__ import annotations

from dataclasses import dataclass

from taskveil.tasks.linear import MatrixTask


@dataclass(frozen=True, eq=False)
class MeanTask(MatrixTask):
    """The population's mean of Kx, unbiased for any population inside the domain. K has shape (m, n).

    Designs for it never shrink: the mean of what reports decode to is, in expectation, the mean of Kx over the people
    who sent them, whoever they are and however they differ from the volunteers. Single reports say next to nothing.

    The loss of a report that decodes to v is ‖K(v − x)‖₂². A veil's expected loss, divided by the number of people N,
    is the expected squared error of their mean. K = diag(weights) weighs the means of single attributes; an attribute
    of weight zero is never asked for and decodes to the volunteers' mean.
    """
