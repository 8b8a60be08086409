"""Where the experiments' data comes from: the folder `TASKVEIL_DATA` when it is set, else a download.

Every data set is checked against a digest of the values the experiments use, whichever way it came.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import zipfile
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats
from taskveil.errors import DataError

HOUSEHOLD_URL = "https://archive.ics.uci.edu/static/public/235/individual+household+electric+power+consumption.zip"
HOUSEHOLD_DIGEST = "dfe896c8efa078e58e38ea016b6be70f0d3073de03871c9c17ed65e2824cfdc9"

REAL_ESTATE_URL = "https://archive.ics.uci.edu/static/public/477/real+estate+valuation+data+set.zip"
REAL_ESTATE_DIGEST = "a9359909bf610dbd82f6ebef83eace6a469fa98380bd0505afaa59621f4900e0"

BREAST_CANCER_DIGEST = "aaccb712666129dbc8ab7fa044ad5fe362203df27837a06b3ce4ac27c2a673a5"

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_DIGEST = "5fd96edd2b7ec292112574af17fe33a2cefa411e6003bcecda5616a1968fbfc1"
MNIST_TRAIN, MNIST_TEST = 6000, 1000


def household() -> Floats:
    """Hourly household power (1417 days, 24 hours), min-max scaled jointly over all values."""
    local = local_file("household/hourly.csv")
    power = _household_hourly(local) if local else _household_minutes(_download(HOUSEHOLD_URL))
    _check("household", power, HOUSEHOLD_DIGEST)
    return np.asarray((power - power.min()) / np.ptp(power))


def real_estate() -> tuple[Floats, Floats]:
    """414 houses: 6 attributes and the price of unit area (414, 1), each column min-max scaled over all rows."""
    local = local_file("real_estate/valuation.csv")
    rows = np.loadtxt(local, delimiter=",", skiprows=1) if local else _first_sheet(_download(REAL_ESTATE_URL))
    _check("real estate", rows[:, 1:], REAL_ESTATE_DIGEST)
    scaled = _minmax(rows[:, 1:])
    return scaled[:, :6], scaled[:, 6:]


def breast_cancer() -> tuple[Floats, NDArray[np.int64]]:
    """569 people: 30 cell measurements, min-max scaled over all rows, and 1 for benign, 0 for malignant."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    _check("breast cancer", np.column_stack([data.data, data.target]), BREAST_CANCER_DIGEST)
    return _minmax(data.data), data.target.astype(np.int64)


def mnist() -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """The first 6,000 training and the first 1,000 test digits: pixels (N, 784) from 0 to 1 and labels."""
    parts: list[NDArray[Any]] = []
    for stem, count in (("train", MNIST_TRAIN), ("t10k", MNIST_TEST)):
        images = _idx(f"{stem}-images-idx3-ubyte.gz", 16)[: count * 784].reshape(-1, 784)
        parts += [images / 255.0, _idx(f"{stem}-labels-idx1-ubyte.gz", 8)[:count].astype(np.int64)]
    _check("MNIST", np.concatenate([part.ravel() for part in parts]), MNIST_DIGEST)
    return parts[0], parts[1], parts[2], parts[3]


def order(count: int, split: int | None) -> NDArray[np.intp]:
    """The order of `count` records, the first for design: the paper's own, or the random one of that number."""
    return np.arange(count) if split is None else np.random.default_rng(split).permutation(count)


def _minmax(columns: Floats) -> Floats:
    return np.asarray((columns - columns.min(axis=0)) / np.ptp(columns, axis=0))


def _idx(name: str, header: int) -> NDArray[np.uint8]:
    """The bytes of an idx file after its header; a local folder may hold only the first 10,000 training digits."""
    local = local_file(f"mnist/{name}") or local_file(f"mnist/{name.replace('train', 'train10k')}")
    with gzip.open(local or _download(MNIST_URL + name)) as stream:
        return np.frombuffer(stream.read(), np.uint8, offset=header)


def _first_sheet(archive: Path) -> Floats:
    """The numbers of the first sheet of the first Excel file in a zip archive, without its header row."""
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    with zipfile.ZipFile(archive) as bundle:
        name = next(n for n in bundle.namelist() if n.endswith(".xlsx"))
        with bundle.open(name) as book, zipfile.ZipFile(BytesIO(book.read())) as sheets:
            root = ElementTree.fromstring(sheets.read("xl/worksheets/sheet1.xml"))  # noqa: S314 - digest checked below
    rows = [[cell.findtext(f"{space}v") for cell in row.iter(f"{space}c")] for row in root.iter(f"{space}row")]
    return np.array([[float(value or "nan") for value in row] for row in rows[1:] if row])


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


def local_file(name: str) -> Path | None:
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
