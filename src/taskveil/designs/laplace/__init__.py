"""Laplace noise on a few linear combinations: the paper's closed form, its clipped refinement, and the baselines."""
