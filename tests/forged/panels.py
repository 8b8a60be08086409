"""What can be wrong with planned rounds: (why, the device it is made from, what is changed), and random changes.

The list is of panels that every client must refuse. Of the random ones some are sound: clients must agree on which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from forged.tools import DEVICES, Arrays, Change, packed, whole, written
from taskveil.client.panels import dated
from taskveil.client.reading import SINCE
from taskveil.veil.release import manifest_of

NAME = "lattice"
WEEKS = dated("2026-11-16", 7, 4)
SOUND: dict[str, Any] = {"kind": "panel", "reports": 2, "rounds": WEEKS, "days": 7}


def panel(**changes: Any) -> Change:
    """Planned rounds with something else in them."""
    return lambda content, _: content.update(panel={**SOUND, **changes})


def named(*rounds: Any) -> Change:
    """Rounds of these names, of which a person reports in one."""
    return panel(rounds=list(rounds), days=0, reports=1)


def without(name: str) -> Change:
    return lambda content, _: content.update(panel={key: value for key, value in SOUND.items() if key != name})


def tensor_of_rounds(content: dict[str, Any], arrays: Arrays) -> None:
    content["panel"], arrays["rounds"] = {**SOUND, "rounds": {"tensor": "rounds"}}, np.zeros(4)


def as_panel(value: Any) -> Change:
    return lambda content, _: content.update(panel=value)


WRONG: dict[str, Change] = {
    "no panel": as_panel(None),
    "a list of panels": as_panel([SOUND]),
    "a text as panel": as_panel("panel"),
    "true as panel": as_panel(True),
    "a tensor as panel": as_panel({"tensor": "encoder.low"}),
    "a panel of another kind": panel(kind="box_region"),
    "a panel of no kind": without("kind"),
    "a panel without a number of reports": without("reports"),
    "a panel without days": without("days"),
    "a panel without rounds": without("rounds"),
    "one more word in a panel": panel(more=1),
    "a panel with blocks of its own": panel(blocks=[0, 1]),
    "no report in all rounds": panel(reports=0),
    "fewer than no reports": panel(reports=-1),
    "more reports than rounds": panel(reports=5),
    "reports with a fraction": panel(reports=2.0),
    "true reports": panel(reports=True),
    "reports in text": panel(reports="2"),
    "2^53 reports in text": panel(reports=whole(2**53)),
    "two reports in text": panel(reports=whole(2)),
    "no rounds": panel(rounds=[], reports=0, days=0),
    "a text as rounds": panel(rounds="2026-11-16", days=0, reports=1),
    "rounds in a tensor": tensor_of_rounds,
    "a round twice": named("a", "b", "a"),
    "a round without a name": named("a", "", "b"),
    "a round with a long name": named("a", "b" * 1001),
    "a round with a long name in other letters": named("a", "ä" * 501),
    "a round with half a character": named("a", "\ud83d"),
    "a round with the other half": named("a", "\ude00\ud83d"),
    "a number as round": named("a", 1),
    "nothing as round": named("a", None),
    "a list as round": named("a", ["b"]),
    "a panel as round": panel(rounds=["a", SOUND], days=0),
    "days below 0": panel(days=-1),
    "days below 0, in the other order": panel(days=-7, rounds=WEEKS[::-1]),
    "days with a fraction": panel(days=7.0),
    "true days": panel(days=True, rounds=dated("2026-11-16", 1, 4)),
    "days in text": panel(days="7"),
    "another number of days": panel(days=8),
    "days for rounds with names": panel(rounds=["a", "b"]),
    "rounds in another order": panel(rounds=WEEKS[::-1]),
    "a week left out": panel(rounds=[*WEEKS[:2], WEEKS[3]]),
    "a day that does not exist": panel(rounds=["2026-02-29"], days=1, reports=1),
    "the 31st of November": panel(rounds=["2026-11-31"], days=1, reports=1),
    "no leap day in 2100": panel(rounds=["2100-02-28", "2100-02-29"], days=1, reports=1),
    "a leap day left out": panel(rounds=["2024-02-28", "2024-03-01"], days=1, reports=1),
    "a day spelled in another way": panel(rounds=["20261116"], days=1, reports=1),
    "a day spelled as a week": panel(rounds=["2026-W46-1"], days=1, reports=1),
    "a day with slashes": panel(rounds=["2026/11/16"], days=1, reports=1),
    "a day with a time": panel(rounds=["2026-11-16T00:00:00"], days=1, reports=1),
    "a day in other digits": panel(rounds=["٢٠٢٦-11-16"], days=1, reports=1),
    "a day with a blank": panel(rounds=[" 2026-11-16"], days=1, reports=1),
    "the year 0": panel(rounds=["0000-12-31"], days=1, reports=1),
    "the year 10000": panel(rounds=["9999-12-31", "10000-01-01"], days=1, reports=1),
    "the year 10000 with a sign": panel(rounds=["9999-12-31", "+010000-01-01"], days=1, reports=1),
    "rounds that end in the year 10000": panel(rounds=["9999-12-31"], days=1, reports=1),
    "more days than there are": panel(rounds=["2026-11-16"], days=2**53 - 1, reports=1),
    "2^53 days": panel(rounds=["2026-11-16"], days=2**53, reports=1),
    "2^53 days in text": panel(rounds=["2026-11-16"], days=whole(2**53), reports=1),
    "days of 600 digits": panel(rounds=["2026-11-16"], days=whole(10**599), reports=1),
}
PANELS: list[tuple[str, str, Change]] = [(f"planned rounds: {why}", NAME, change) for why, change in WRONG.items()]


def in_an_older_schema() -> tuple[bytes, bytes]:
    """Sound planned rounds in a release of the schema before them."""
    content, arrays = packed(DEVICES[NAME])
    manifest, weights = manifest_of({**content, "panel": SOUND}, arrays)
    return written({**manifest, "schema": SINCE["panel"] - 1}, weights)


ODD: tuple[Any, ...] = (
    0,
    1,
    -1,
    2,
    3,
    2**53 - 1,
    2**53,
    1.0,
    0.5,
    True,
    False,
    None,
    "1",
    "",
    [],
    {},
    [1],
    whole(2**53),
)
NAMES: tuple[Any, ...] = (
    *("", "a", "b", "ä" * 500, "ä" * 501, "x" * 1000, "x" * 1001, "\ud83d", "\U0001f600", "\x00", "\n", "__proto__"),
    *("2026-11-16", "2026-11-23", "2024-02-29", "2023-02-29", "9999-12-31", "0000-01-01", "0001-01-01", "20261116"),
    *(1, None, True, [], {"tensor": "x"}, whole(2**53)),
)
FIRSTS = ("2024-02-28", "1900-02-28", "2000-02-27", "2100-02-26", "0001-01-01", "9999-12-20", "2026-11-16")


def random_panel(rng: np.random.Generator) -> Any:
    """Planned rounds with up to three random changes; some are sound."""
    first, days = FIRSTS[rng.integers(len(FIRSTS))], int(rng.integers(0, 9))
    count = int(rng.integers(1, 6))
    rounds: list[Any] = [f"round {place}" for place in range(count)]
    if days:
        try:
            rounds = list(dated(first, days, count))
        except ValueError:  # beyond the calendar
            rounds = [first]
    made: dict[str, Any] = {"kind": "panel", "reports": int(rng.integers(1, count + 1)), "rounds": rounds, "days": days}
    for _ in range(int(rng.integers(0, 4))):
        made = CHANGES[rng.integers(len(CHANGES))](made, rng)
    return made if rng.random() < 0.98 else ODD[rng.integers(len(ODD))]


def _other(name: str) -> Callable[[dict[str, Any], np.random.Generator], dict[str, Any]]:
    return lambda made, rng: {**made, name: ODD[rng.integers(len(ODD))]}


def _renamed(made: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    rounds = [*made["rounds"]] if isinstance(made.get("rounds"), list) else []
    place = rng.integers(len(rounds) + 1)
    return {**made, "rounds": [*rounds[:place], NAMES[rng.integers(len(NAMES))], *rounds[place + rng.integers(2) :]]}


def _without_days(made: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
    return {**made, "days": 0}


def _one_round(made: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    first, most = FIRSTS[rng.integers(len(FIRSTS))], 10 ** int(rng.integers(1, 17))
    return {**made, "reports": 1, "rounds": [first], "days": int(rng.integers(0, most))}


def _other_keys(made: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    key = [*made][rng.integers(len(made))]
    more = ("more", "__proto__", "tensor", "integer")[rng.integers(4)]
    return {**made, more: 1} if rng.random() < 0.5 else {name: value for name, value in made.items() if name != key}


CHANGES = (
    _other("reports"),
    _other("days"),
    _other("rounds"),
    _renamed,
    _renamed,
    _without_days,
    _one_round,
    _other_keys,
)
