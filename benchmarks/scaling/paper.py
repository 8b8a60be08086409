"""A billion devices on paper: the tables of docs/guides/scale.md, computed from what was measured.

`python benchmarks/ray.py --paper docs/guides/scale.md` writes them between the marks in the page; a test holds the page
against this file and `measured.json`, so that neither can change alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent / "measured.json"
DEVICES, WEEK, PEAK, BUSY = 1e9, 7 * 86400, 3, 0.5
SINGLE, BATCHED, AROUND, GATHERED = 53, 17, 4500, 500
"""Bytes of a report of one byte alone, of one in a batch (`taskveil.client.wire`), and around a request; and reports in
a batch."""
COPIES = 3
"""How often a report is copied while its round is open: the table grows by half between two sorts, and
1 + 2/3 + 4/9 + … = 3 (`SORT_SHARE` in collector/store/postgres.py)."""
CORE_HOUR, GIGABYTE_MONTH = 0.05, 0.10

Measured = Mapping[str, Any]
Row = tuple[str, ...]


def rates(measured: Measured) -> list[Row]:
    """What a core does, as measured."""
    found = [("records to reports, codebook", measured["privatize"])]
    found += [(f"records to reports, {kind}", measured["kinds"][kind]) for kind in ("laplace", "mixed")]
    found += [("reports to estimates of 30 attributes", measured["decode"]), ("reports to sums", measured["estimate"])]
    return [
        (
            what,
            f"{one['rows']:,}",
            f"{one['plain']:,}",
            f"{one['two workers']:,}",
            f"{one['per core']:.2f}",
            f"{one['memory']} MB",
            f"{one['others']:.1f}",
        )
        for what, one in found
    ]


def bars(measured: Measured) -> list[Row]:
    """What was to be reached."""
    made, sweep = measured["privatize"], measured["sweep"]
    found = [
        ("two workers against one, records to reports", made["scaling"], 1.6),
        ("two workers, each, against one core without Ray", made["per core"], 0.8),
        (f"two workers against one core, {sweep['designs']} designs", sweep["scaling"], 1.6),
    ]
    rows = [(what, f"{value:.2f} ×", f"≥ {bar} ×", _verdict(value >= bar)) for what, value, bar in found]
    others = max(part["others"] for part in (made, sweep))
    return [
        *rows,
        ("peak memory of a worker", f"{made['memory']} MB", "≤ 500 MB", _verdict(made["memory"] <= 500)),
        ("cores that others used meanwhile", f"{others:.1f} of 2", "none", ""),
    ]


def shapes(measured: Measured) -> list[Row]:
    """Memory of a worker by the shape of the table."""
    return [(name, f"{value:,} MB") for name, value in measured["odd_shapes"].items() if name != "measured"]


def moments(measured: Measured) -> list[Row]:
    """When and where each part was measured."""
    return [
        (f"{name}: {said['machine']}", said["date"], said["commit"], f"{said['load']:g}")
        for name, said in ((name, part["measured"]) for name, part in measured.items())
    ]


def collecting(measured: Measured) -> list[Row]:
    """Devices, network, collectors, databases."""
    stored = measured["database"]
    mean, size = DEVICES / WEEK, stored["row_bytes"] + stored["index_bytes"]
    rows = [
        ("reports a second, mean", f"{mean:,.0f}", f"10⁹ / {WEEK:,} s", "computed"),
        ("at the peak", f"{PEAK * mean:,.0f}", f"{PEAK} × the mean", "assumed"),
    ]
    for kind, what in (("singles", "one report a request"), ("batches", f"gathered, {GATHERED} a request")):
        rate = stored[f"{kind}_a_second_of_processor"]
        cores = PEAK * mean / rate / BUSY
        told = f"{PEAK * mean:,.0f} / {rate:,} a second of processor / {BUSY:.0%} busy"
        rows.append((f"cores for collector and PostgreSQL, {what}", f"{cores:.1f}", told, "measured rate"))
    traffic = (SINGLE + AROUND) * DEVICES
    batched = (BATCHED + AROUND / GATHERED) * DEVICES
    week, index, copied = size * DEVICES, stored["index_bytes"] * DEVICES, stored["ended_a_second"]
    report, read = measured["privatize"]["report bytes"], stored["read_a_second"]
    around = "headers and TLS assumed"
    arithmetic = f"{COPIES} × 10⁹ / {copied:,} a second / {WEEK:,} s"
    sizes = f"10⁹ × ({stored['row_bytes']} + {stored['index_bytes']} bytes)"
    rows += [
        ("network a week, one report a request", _bytes(traffic), f"10⁹ × ({SINGLE} + {AROUND:,} bytes)", around),
        ("the same at the peak, each second", _bytes(PEAK * traffic / WEEK), f"{PEAK} × that / {WEEK:,} s", "computed"),
        (
            f"network a week, gathered, {GATHERED} a request",
            _bytes(batched),
            f"10⁹ × ({BATCHED} + {AROUND:,} / {GATHERED} bytes)",
            around,
        ),
        ("PostgreSQL, a week", _bytes(week), sizes, "measured size"),
        ("PostgreSQL, a year of rounds kept", _bytes(52 * week), f"52 × {_bytes(week)}", "computed"),
        ("its index alone, a week", _bytes(index), f"10⁹ × {stored['index_bytes']} bytes", "measured size"),
        (
            "sorting rows while a round is open, of a core",
            f"{COPIES * DEVICES / copied / WEEK:.1%}",
            arithmetic,
            "computed",
        ),
        ("to end a round that is alone there", _time(DEVICES / copied), f"10⁹ / {copied:,} a second", "measured rate"),
        ("to end one beside 51 others", _time(52 * DEVICES / copied), "52 × that: all rows are copied", "computed"),
        ("to read a week out of it", _time(DEVICES / read), f"10⁹ / {read:,} a second", "measured rate"),
        ("Parquet, a week", _bytes(report * DEVICES), f"10⁹ × {report} bytes", "measured size"),
    ]
    return rows


def computing(measured: Measured) -> list[Row]:
    """Estimates, estimates of everybody, designs."""
    rows = []
    for what, rate, source in (
        ("sums of a week's reports, for `estimate`", measured["estimate"]["plain"], "one core, without Ray"),
        ("an estimate of every person, `decode`", measured["decode"]["two workers"] / 2, "one of two workers"),
        ("10⁹ records to reports, `privatize`", measured["privatize"]["two workers"] / 2, "one of two workers"),
    ):
        rows.append((what, _time(DEVICES / rate), f"10⁹ / {rate:,.0f} rows a second", f"measured: {source}"))
    each, share = _design(measured)
    told = f"1,000 × {each:.2f} s / {share:.2f}, which is what a worker of two reaches"
    rows.append(("1,000 designs like those of the benchmark", _time(1000 * each / share), told, "measured"))
    return rows


def _design(measured: Measured) -> tuple[float, float]:
    """Seconds that a design takes one core, and the share of that speed which a worker of two reaches."""
    sweep = measured["sweep"]
    return sweep["plain"] / sweep["designs"], sweep["scaling"] / 2


def money(measured: Measured) -> list[Row]:
    """Of a week, with made-up prices."""
    stored = measured["database"]
    cores = PEAK * DEVICES / WEEK / stored["singles_a_second_of_processor"] / BUSY
    hours = 24 * 7 * cores
    size = (stored["row_bytes"] + stored["index_bytes"]) * DEVICES / 1e9
    parquet = measured["privatize"]["report bytes"] * DEVICES / 1e9
    month = GIGABYTE_MONTH
    sums = DEVICES / measured["estimate"]["plain"] / 3600
    each, share = _design(measured)
    sweep = 1000 * each / share / 3600
    return [
        ("collector and PostgreSQL, one report a request", f"{cores:.1f} cores × 168 h", f"{hours * CORE_HOUR:,.0f}"),
        ("PostgreSQL: 4 weeks, and as much disk free", f"8 × {size:,.0f} GB / 4.3", f"{8 * size / 4.3 * month:,.0f}"),
        ("Parquet of a year", f"52 × {parquet:.1f} GB / 4.3", f"{52 * parquet / 4.3 * month:,.2f}"),
        ("sums of the week's reports", f"{sums:.2g} core-hours", f"{sums * CORE_HOUR:,.4f}"),
        ("a sweep of 1,000 designs, each time", f"{sweep:.2g} core-hours", f"{sweep * CORE_HOUR:,.2f}"),
    ]


TABLES = {
    "bars": (bars, ("", "found", "bar", "")),
    "rates": (
        rates,
        (
            "",
            "rows",
            "one core, rows/s",
            "two workers, rows/s",
            "each against one core",
            "memory",
            "others' cores",
        ),
    ),
    "shapes": (shapes, ("a worker reads, or writes", "peak memory")),
    "moments": (moments, ("part", "date", "commit", "load before")),
    "collecting": (collecting, ("10⁹ devices, a report a week", "", "arithmetic", "from")),
    "computing": (computing, ("on one core", "", "arithmetic", "from")),
    "money": (money, ("a week", "", f"at {CORE_HOUR} a core-hour, {GIGABYTE_MONTH} a GB-month")),
}


def write(page: Path, measured: Measured) -> None:
    """Put every table of the page in its place."""
    page.write_text(written(page.read_text(encoding="utf-8"), measured), encoding="utf-8")


def written(text: str, measured: Measured) -> str:
    """The page with its tables as they follow from what was measured."""
    for name, (rows, titles) in TABLES.items():
        marks = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(marks.findall(text)) != 1:
            raise ValueError(f"the page needs one place for the table {name}.")
        table = _table(titles, rows(measured)).replace("\\", r"\\")
        text = marks.sub(rf"\g<1>\n{table}\n\g<2>", text)
    return text


def _table(titles: Row, rows: Iterable[Row]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _verdict(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _time(seconds: float) -> str:
    for unit, size in (("s", 60), ("min", 60), ("h", 24)):
        if seconds < 2 * size:
            return f"{seconds:.3g} {unit}"
        seconds /= size
    return f"{seconds:.3g} days"
