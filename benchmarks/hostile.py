"""Hostile mixed records, singly and in batches: how many raise, and how many reports are of another length.

    python benchmarks/hostile.py                   100,000 records
    python benchmarks/hostile.py --records 1000000

What stands in them is listed in tests/hostile_values.py. Exit code 1 if there is an exception, or a second length.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hostile_values import VALUES, mixed_records, mixed_veil

BATCH = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    options = parser.parse_args()
    veil = mixed_veil()
    device, layout = veil.device, veil.mechanism.layout
    start, lengths, raised, short = time.perf_counter(), Counter[int](), Counter[str](), 0
    for seed, first in enumerate(range(0, options.records, BATCH)):
        records = mixed_records(min(BATCH, options.records - first), seed=seed)
        for record in records:
            try:
                lengths[len(layout.pack(device.privatize(device.fields.expand_one(record))[0].tolist()))] += 1
            except Exception as error:  # whatever it is, it counts
                raised[type(error).__name__] += 1
        try:
            short += len(veil.privatize(records)) != len(records)
        except Exception as error:
            raised[type(error).__name__] += 1
    others = sum(lengths.values()) - max(lengths.values(), default=0)
    print(
        f"{options.records:,} hostile mixed records: {sum(raised.values())} exceptions, {others} reports of another "
        f"length; {short} batches of another size ({len(VALUES)} hostile values, singly and {BATCH:,} at a time, "
        f"{time.perf_counter() - start:.0f} s)"
    )
    if raised:
        print(", ".join(f"{count} {name}" for name, count in raised.most_common()))
    return 1 if raised or others or short else 0


if __name__ == "__main__":
    sys.exit(main())
