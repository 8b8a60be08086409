"""Where the experiments' data comes from: the folder `TASKVEIL_DATA` when it is set, else a download.

Every data set is checked against a digest of the values the experiments use, whichever way it came.
"""

from __future__ import annotations

import csv
import hashlib
import os
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import DataError

Floats = NDArray[np.float64]

HOUSEHOLD_URL = "https://archive.ics.uci.edu/static/public/235/individual+household+electric+power+consumption.zip"
HOUSEHOLD_DIGEST = "dfe896c8efa078e58e38ea016b6be70f0d3073de03871c9c17ed65e2824cfdc9"
HOUSEHOLD_DAYS = 1417


def household() -> Floats:
    """Hourly household power (1417 days, 24 hours), min-max scaled jointly over all values."""
    local = _local("household/hourly.csv")
    power = _household_hourly(local) if local else _household_minutes(_download(HOUSEHOLD_URL))
    _check("household", power, HOUSEHOLD_DIGEST)
    return np.asarray((power - power.min()) / np.ptp(power))


def _household_hourly(path: Path) -> Floats:
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1).reshape(-1, 24)


def _household_minutes(archive: Path) -> Floats:
    """Minutes to hourly means over the minutes present; only days with all 24 hours are kept."""
    totals: dict[tuple[datetime, int], tuple[float, int]] = {}
    with zipfile.ZipFile(archive) as bundle, bundle.open("household_power_consumption.txt") as stream:
        for row in csv.DictReader((line.decode("ascii") for line in stream), delimiter=";"):
            if row["Global_active_power"] not in ("?", ""):
                hour = (datetime.strptime(row["Date"], "%d/%m/%Y"), int(row["Time"][:2]))
                total, count = totals.get(hour, (0.0, 0))
                totals[hour] = (total + float(row["Global_active_power"]), count + 1)
    days = sorted({day for day, _ in totals})
    full = [day for day in days if all((day, hour) in totals for hour in range(24))]
    return np.array([[totals[day, hour][0] / totals[day, hour][1] for hour in range(24)] for day in full])


def _local(name: str) -> Path | None:
    """The file in the TASKVEIL_DATA folder, or None when there is no such file or folder."""
    folder = os.environ.get("TASKVEIL_DATA")
    path = Path(folder, name) if folder else None
    return path if path and path.exists() else None


def _download(url: str) -> Path:
    import pooch

    try:
        return Path(pooch.retrieve(url, known_hash=None, progressbar=False))
    except Exception as error:
        raise DataError(
            f"could not download {url} ({error}). Put the file into a folder and set TASKVEIL_DATA to it."
        ) from error


def _check(name: str, values: Floats, digest: str) -> None:
    """Values rounded to 1e-6, so that the digest does not depend on how a sum was accumulated."""
    found = hashlib.sha256(np.rint(values * 1e6).astype("<i8").tobytes()).hexdigest()
    if found != digest:
        raise DataError(f"the {name} data is not what the experiments were made for (digest {found[:12]}…).")
