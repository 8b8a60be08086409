"""The museum in full: every broken mechanism with what caught it, every sound one with its bound.

    python benchmarks/audit.py                                             a million trials each
    python benchmarks/audit.py --only sound --repeat 20 --trials 100000    how many of twenty audits pass

Bounds hold with confidence 1 − 1e-6. Exit code 1 if a broken one escapes, a sound one fails, or, at a million trials,
the bound of a sound Laplace or codebook is looser than 0.93 ε (0.85 ε at ε = 8).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from auditing.museum import BROKEN, SOUND, caught_by


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["broken", "sound"])
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    start, wrong = time.perf_counter(), 0
    print(f"{'broken mechanism':46s} {'claimed':>8s} {'shown ≥':>8s}  caught by")
    for exhibit in BROKEN if options.only != "sound" else []:
        found = exhibit.audit(trials=max(options.trials, exhibit.trials))
        caught = caught_by(found)
        wrong += not set(exhibit.by) <= set(caught) or found.passed
        said = ", ".join(caught) or "ESCAPED"
        print(f"{exhibit.name:46s} {found.epsilon_claimed:8.3g} {found.epsilon_lower:8.4f}  {said}", flush=True)
    print(f"\n{'sound mechanism':46s} {'claimed':>8s} {'shown ≥':>8s}  share of ε, passed")
    for exhibit in SOUND if options.only != "broken" else []:
        runs = [exhibit.audit(trials=options.trials, structural=i == 0) for i in range(options.repeat)]
        least = min(run.epsilon_lower for run in runs)
        passed = sum(run.passed for run in runs)
        share = least / runs[0].epsilon_claimed
        tight = ", ε" in exhibit.name and options.trials >= 1_000_000
        needed = 0.0 if not tight else 0.85 if exhibit.epsilon == 8 else 0.93
        wrong += passed < len(runs) or share < needed
        print(
            f"{exhibit.name:46s} {runs[0].epsilon_claimed:8.3g} {least:8.4f}  {share:.3f}, {passed} of {len(runs)}",
            flush=True,
        )
    print(f"\n{wrong} not as they should be; {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
