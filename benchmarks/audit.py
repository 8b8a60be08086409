"""The museum in full: every broken mechanism with what caught it, every sound one with its bound.

    python benchmarks/audit.py                       a million trials each; every sound one is audited 20 times
    python benchmarks/audit.py --only broken         the broken ones alone
    python benchmarks/audit.py --again 100000        the 19 further audits of a sound one with more trials

Bounds hold with confidence 1 − 1e-6. All structural checks run in every audit; the 19 further ones of a sound
mechanism start fewer processes. Exit code 1 if a broken one escapes, a sound one fails once, or, at a million trials,
the bound of a sound Laplace or codebook is looser than 0.93 ε (0.85 ε at ε = 8).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from auditing.museum import BROKEN, Exhibit, caught_by
from auditing.sound import SOUND
from taskveil.auditing import attack


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["broken", "sound"])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--again", type=int, default=2_000)
    options = parser.parse_args()
    start, wrong = time.perf_counter(), 0
    broken, sound = (BROKEN if options.only != "sound" else []), (SOUND if options.only != "broken" else [])
    print(f"{'broken mechanism':46s} {'claimed':>8s} {'shown ≥':>8s}  caught by")
    for exhibit in broken:
        found = exhibit.audit(trials=max(options.trials, exhibit.trials))
        caught = caught_by(found)
        wrong += not set(exhibit.by) <= set(caught) or found.passed
        said = ", ".join(caught) or "ESCAPED"
        print(f"{exhibit.name:46s} {found.epsilon_claimed:8.3g} {found.epsilon_lower:8.4f}  {said}", flush=True)
    print(f"\n{'sound mechanism':46s} {'claimed':>8s} {'shown ≥':>8s}  share of ε, cleared, checks not applicable")
    for exhibit in sound:
        first = exhibit.audit(trials=options.trials)
        further = [_again(exhibit, options.again) for _ in range(options.repeat - 1)]
        share = first.epsilon_lower / first.epsilon_claimed
        passed = sum(run.passed for run in (first, *further))
        idle = sum(check.outcome == "not applicable" for check in first.checks)
        tight = ", ε" in exhibit.name and options.trials >= 1_000_000
        needed = 0.0 if not tight else 0.85 if exhibit.epsilon == 8 else 0.93
        wrong += passed < options.repeat or share < needed
        print(
            f"{exhibit.name:46s} {first.epsilon_claimed:8.3g} {first.epsilon_lower:8.4f}  {share:.3f}, "
            f"{passed} of {options.repeat}, {idle}",
            flush=True,
        )
    print(f"\n{len(broken)} broken, {len(sound)} sound; {wrong} not as they should be", end="; ")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


def _again(exhibit: Exhibit, trials: int) -> Any:
    """One more audit; starting dozens of interpreters again would teach nothing."""
    kept, attack.FORKS = attack.FORKS, 4
    try:
        return exhibit.audit(trials=trials, finalists=2)
    finally:
        attack.FORKS = kept


if __name__ == "__main__":
    sys.exit(main())
