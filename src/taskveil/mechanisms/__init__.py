"""The randomisers: one file each, opening with its guarantee and the argument behind it."""

from taskveil.mechanisms.laplace import Laplace

Mechanism = Laplace

__all__ = ["Laplace", "Mechanism"]
