"""The volunteers, counted as the reports say people are: for distributions, and for designs that are to suit people."""

from __future__ import annotations

from dataclasses import dataclass

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.server.estimates.calibration import Calibrated
from taskveil.server.estimates.features import Features


@dataclass(frozen=True, kw_only=True, eq=False)
class Reweighted:
    """How volunteers were tilted (`calibrated`), along what (`features`), and by name their `numeric` answers and
    attributes (V,), NaN where missing."""

    calibrated: Calibrated
    features: Features
    numeric: dict[str, Floats]

    def values(self, name: str) -> Floats:
        """An answer or attribute of the volunteers (V,), whose distribution the weights make that of people."""
        if name not in self.numeric:
            raise DataError(
                f"the distribution of {name!r} is not estimated here, only of: {', '.join(self.numeric) or 'none'}."
            )
        return self.numeric[name]

    def weights_of(self, records: Floats, answers: Floats) -> Floats:
        """How much volunteers with these records (N, n) and answers (N, m) count, 1 on average."""
        return self.calibrated.weights_of(self.features(records, answers))
