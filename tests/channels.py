"""Output distributions in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from taskveil.client.mechanisms import Response


def exact_distribution(response: Response, favoured: list[int]) -> list[Fraction]:
    """P[k] by walking through every one of the T draws' ranges, in exact arithmetic."""
    surplus, told = response.a - response.b, response.favoured * (response.a - response.b)
    counts = [Fraction(0)] * response.size
    for place, k in enumerate(favoured):
        low, high = place * surplus, (place + 1) * surplus
        counts[k] += high - low
    for k in range(response.size):
        counts[k] += (told + (k + 1) * response.b) - (told + k * response.b)
    return [c / response.total for c in counts]
