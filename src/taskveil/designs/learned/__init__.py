"""Designs learned by gradients, for tasks that are models."""
