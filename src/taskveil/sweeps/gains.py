"""What designs of their own gain for segments, against the one design for everybody.

Both are judged on the same held-out people of the segment, so their losses are paired: the gain is the mean of one
number per person, what the common design costs them less what their own does. Its interval is that of any mean
(`taskveil.veil.intervals`), for other people of the segment like those tested; it counts neighbours in time as the
sweep does. Nothing is chosen here: every design that was asked for is listed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Integers
from taskveil.errors import DataError
from taskveil.sweeps.frontier import Frontier, written
from taskveil.veil.intervals import bounds, interval

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentedFrontier:
    """The frontier of the design for everybody, `common`, and those of `segments` that have designs of their own.

    `people` are the numbers of volunteers and of tested people of every segment, the largest first; `why_not` says in
    a sentence why some keep the common design. `tested` are the places of a segment's people among the test records of
    the common frontier.
    """

    common: Frontier
    segments: Mapping[str, Frontier]
    people: Mapping[str, tuple[int, int]]
    why_not: Mapping[str, str] = field(default_factory=dict)
    tested: Mapping[str, Integers] = field(default_factory=dict, repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """One row per segment, method and budget: what people lose by the common design and by their own (means over
        seeds), the gain with its 95% interval, and whether it is `sure`: that it is above zero holds with 95%
        confidence for all rows together. None where something is not known; a segment without a design of its own
        says `why_not`."""
        designs = list(dict.fromkeys((point.method, point.epsilon) for point in self.common.points))
        asked = len(designs) * len(self.segments)
        return [self._row(name, *design, asked) for name in self.people for design in designs]

    def _row(self, name: str, method: str, epsilon: float, asked: int) -> dict[str, Any]:
        common, own = self.common.per_record(method, epsilon), self.segments.get(name)
        theirs = None if own is None else own.per_record(method, epsilon)
        ours = gain = low = high = None
        sure = False
        # Of segments without a design of their own, nothing is said: the mean loss of very few people is theirs.
        if common is not None and theirs is not None and name in self.tested:
            ours = common[self.tested[name]]
            paired, block = ours - theirs, self.common.block
            gain = float(paired.mean())
            if np.ptp(paired) > 1e-9 * np.abs(paired).max():  # what is the same for all says nothing about others
                low, high = (_number(end) for end in interval(paired, confidence=CONFIDENCE, block=block))
                # Bonferroni: the chance that any of them is wrong is at most that of each, added up. And a bound, not
                # an interval: few people whose losses are skewed look surer than they are.
                sure = bool(bounds(paired, confidence=1 - (1 - CONFIDENCE) / (2 * asked), block=block)[0] > 0)
        volunteers, tested = self.people[name]
        return {
            "segment": name,
            "volunteers": volunteers,
            "tested": tested,
            "method": method,
            "epsilon": epsilon,
            "common": None if ours is None else float(ours.mean()),
            "own": None if theirs is None else float(theirs.mean()),
            "gain": gain,
            "low": low,
            "high": high,
            "sure": sure,
            "why_not": self.why_not.get(name),
        }

    def table(self) -> str:
        """A plain text table: a line for every segment, method and budget, and for every segment that keeps the common
        design, with the reason."""
        lines = [["segment", "volunteers", "tested", "method", "ε", "common", "own", "gain", "95% interval"]]
        listed: set[str] = set()
        for row in self.rows():
            name = row["segment"]
            counts = [name, f"{row['volunteers']:,}", f"{row['tested']:,}"]
            if row["why_not"] is not None:
                lines += [[*counts, "keeps the common design"]] if name not in listed else []
            else:
                numbers = [_shown(row[column]) for column in ("common", "own", "gain")]
                between = "–" if row["low"] is None else f"{_shown(row['low'])} to {_shown(row['high'])}"
                star = " *" if row["sure"] else ""
                lines.append([*counts, row["method"], f"{row['epsilon']:g}", *numbers, between + star])
            listed.add(name)
        columns = max(len(line) for line in lines)
        widths = [max(len(line[i]) for line in lines if len(line) == columns or i < 3) for i in range(columns)]
        text = ["  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines]
        text.append(
            "gain: what the common design costs the segment's people more than their own, with its 95% interval for "
            "others like those tested, each by itself. *: above zero, with 95% confidence for all of these together."
        )
        reasons = [f"{name}: {reason}" for name, reason in self.why_not.items()]
        text += [*reasons[:5], *([f"… and {len(reasons) - 5} more segments."] if len(reasons) > 5 else [])]
        return "\n".join(text)

    def to_json(self, path: str | Path, *, losses: bool = True) -> Path:
        """The common frontier, those of all segments, and the rows of the table, in a file at `path`.

        With `losses`, those of single records are kept, so that all of it can be read again: treat such a file as you
        treat the test records.
        """
        content = {
            "common": self.common.content(losses=losses),
            "segments": {name: part.content(losses=losses) for name, part in self.segments.items()},
            "people": {name: list(counts) for name, counts in self.people.items()},
            "why_not": dict(self.why_not),
            "gains": self.rows(),
        }
        if losses:
            content["tested"] = {name: places.tolist() for name, places in self.tested.items()}
        return written(path, (json.dumps(content, indent=1) + "\n").encode())

    @classmethod
    def from_json(cls, path: str | Path) -> SegmentedFrontier:
        """What `to_json` wrote with the losses of single records; DataError if it is none."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if "gains" in content and "tested" not in content:
                raise DataError(
                    f"{path} was written without the losses of single records, of which gains are computed: what they "
                    'were stands there under "gains".'
                )
            return cls(
                common=Frontier.read(content["common"]),
                segments={name: Frontier.read(part) for name, part in content["segments"].items()},
                people={name: (int(a), int(b)) for name, (a, b) in content["people"].items()},
                why_not=content["why_not"],
                tested={name: np.array(places, dtype=np.int64) for name, places in content["tested"].items()},
            )
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} holds no segments that `to_json` wrote: {type(error).__name__}.") from error


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
