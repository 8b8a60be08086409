"""The designed object: what a design hands to devices and to servers, its guarantee, its losses, and its files."""

from __future__ import annotations

from taskveil.veil.family import Family
from taskveil.veil.veil import Veil

__all__ = ["Family", "Veil"]
