"""The task of estimating a population's means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.records.schema import Schema
from taskveil.tasks.linear import MatrixTask


@dataclass(frozen=True, eq=False)
class MeanTask(MatrixTask):
    """The population's mean of Kx, unbiased for any population inside the domain. K has shape (m, n).

    Designs for it never shrink: the mean of what reports decode to is, in expectation, the mean of Kx over the people
    who sent them, however they differ from the volunteers. Single reports say next to nothing.

    The loss of a report that decodes to v is ‖K(v − x)‖₂². A veil's expected loss, divided by the number of people N,
    is the expected squared error of their mean. K = diag(weights) weighs the means of single attributes; an attribute
    of weight zero is never asked for and decodes to the volunteers' mean.
    """

    def on(self, schema: Schema) -> Self:
        """The same task on the numbers that records of a schema become.

        A mean is that of the people who *have* a value, so a K that weighs fields one by one also asks how many have
        none: with a quarter of the field's range for a whole share, about what a wrong share can do to the mean.
        """
        wide = super().on(schema)
        if self.width != len(schema) or self.outputs != self.width or (np.diag(np.diag(self.K)) != self.K).any():
            return wide
        flags = np.zeros((0, schema.width))
        for weight, field, place in zip(np.diag(self.K), schema.fields.fields, schema.fields.places, strict=True):
            if field.flagged and weight != 0:
                low, high = field.box
                flags = np.vstack([flags, np.zeros(schema.width)])
                flags[-1, place.stop - 1] = abs(weight) * max(float(high[0] - low[0]), 1e-300) / 4
        return type(self)(np.vstack([wide.K, flags])) if len(flags) else wide
