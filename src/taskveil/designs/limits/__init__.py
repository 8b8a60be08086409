"""What nobody can beat: how small the loss of an ε-LDP report can be, whatever device and server do.

| file | what it bounds | for which data |
| --- | --- | --- |
| `any_data.py` | by correlation: what one report can say about any direction | all, with a given covariance |
| `information.py` | by mutual information and the rate-distortion function | Gaussian |
| `half_space.py` | by the best single report | Gaussian |
| `prices.py` | by duality; the tightest from ε of about 1 on | Gaussian |
| `gaussian.py` | the best of all of these: `gaussian_limit` | Gaussian |
| `staircases.py` | from the other side, one direction: what the best of all reports *does* reach | Gaussian |
"""

from taskveil.designs.limits.any_data import any_data_limit
from taskveil.designs.limits.gaussian import captured, gaussian_bounds, gaussian_limit
from taskveil.designs.limits.information import gaussian_distortion, information_limit, water_level

__all__ = [
    "any_data_limit",
    "captured",
    "gaussian_bounds",
    "gaussian_distortion",
    "gaussian_limit",
    "information_limit",
    "water_level",
]
