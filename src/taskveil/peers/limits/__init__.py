"""What nobody can beat: how small the loss of an ε-LDP report can be, whatever device and server do.

| file | what it bounds | for which data |
| --- | --- | --- |
| `any_data.py` | by correlation: what one report can say about any direction | all, with a given covariance |
| `information.py` | by mutual information and the rate-distortion function | Gaussian |
| `half_space.py` | by the best single report | Gaussian |
| `prices.py` | by duality; the tightest from ε of about 1 on | Gaussian |
| `gaussian.py` | the best of all of these: `gaussian_limit` | Gaussian |

From the other side, `benchmarks/staircases.py` computes what the best of all reports *does* reach in one Gaussian
direction.
"""

from taskveil.peers.limits.any_data import any_data_limit
from taskveil.peers.limits.gaussian import captured, gaussian_bounds, gaussian_limit
from taskveil.peers.limits.information import information_limit

__all__ = [
    "any_data_limit",
    "captured",
    "gaussian_bounds",
    "gaussian_limit",
    "information_limit",
]
