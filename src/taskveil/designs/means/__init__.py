"""Designs for population means: channels that are unbiased whatever the population, and what the literature has."""
