"""The paper's figures, and ours beside them."""

EXPERIMENTS = ("theory", "household", "real-estate", "breast-cancer", "mnist")
"""Each is a module of this package (see `runs.module`)."""
