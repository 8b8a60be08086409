"""The randomisers: one file each, opening with its guarantee and the argument behind it."""

from taskveil.mechanisms.codebook import Codebook, Stage
from taskveil.mechanisms.laplace import Laplace
from taskveil.mechanisms.lattice import LatticeCodebook
from taskveil.mechanisms.response import Response

Mechanism = Laplace | Codebook | LatticeCodebook

__all__ = ["Codebook", "Laplace", "LatticeCodebook", "Mechanism", "Response", "Stage"]
