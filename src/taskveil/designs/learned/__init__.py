"""Designs learned by gradients, for tasks that are models. They need torch, and say so in one line."""

from __future__ import annotations

from taskveil.errors import needs

with needs("a design that learns through a model's gradients", extra="torch"):
    import torch  # noqa: F401 - is it there?
