"""What a release asks of people's devices: bytes to fetch, bytes to send, operations to compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Size:
    """`client_bytes` of the client folder, `report_bytes` of one report's numbers, and `operations` (products,
    comparisons) that the encoder computes for one record; 0 where a model that the release only names does."""

    client_bytes: int
    report_bytes: int
    operations: int

    def __str__(self) -> str:
        return f"{in_words(self.client_bytes, 'B')}, {in_words(self.operations, 'operations')} a report"


def in_words(count: int, unit: str) -> str:
    """Three digits and a unit: 512 B, 12.3 kB, 1.2 million operations."""
    if unit == "B":
        return f"{count / 1000:.3g} kB" if count >= 1000 else f"{count} B"
    for word, size in (("million ", 10**6), ("thousand ", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {word}{unit}"
    return f"{count} {unit}"
