"""When reports came last: to the hour, and in the memory of this process only.

**Promise.** No file, log or database has this time, and nobody who asks later learns more than the hour. A person who
asks often sees when the number of reports grows, as in /v1/releases.

**How.** It follows from the number of stored reports of each release, which is looked at once an hour and for each
request. So every worker knows it, whichever of them took the report. Hours begin at fixed times: if the time since the
report were rounded instead, the moment at which the answer changes would show the minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from taskveil.collector.store import StoredRelease


class Arrivals:
    """The hour in which the number of reports of each release grew last."""

    def __init__(self, releases: Iterable[StoredRelease]) -> None:
        self._began = self._looked = _hour()
        self._known: dict[str, tuple[int, int | None]] = {one.id: (one.reports, None) for one in releases}

    @property
    def due(self) -> bool:
        """Whether nobody has looked in this hour."""
        return _hour() != self._looked

    @property
    def hours(self) -> int:
        """The hours since this process started."""
        return _hour() - self._began

    def look(self, releases: Iterable[StoredRelease]) -> None:
        """Compare the numbers of reports with those of the last look."""
        self._looked = now = _hour()
        for one in releases:
            before, last = self._known.get(one.id, (0, None))
            self._known[one.id] = one.reports, now if one.reports > before else last

    def since(self, ids: Iterable[str]) -> int | None:
        """The hours since the last report of any of these releases; None if none came since this process started."""
        found = [last for id in ids if (last := self._known.get(id, (0, None))[1]) is not None]
        return _hour() - max(found) if found else None


def _hour() -> int:
    return int(monotonic() // 3600)
