"""Record in, private report out, recorded before it is returned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client import entropy
from taskveil.client.device import Device
from taskveil.client.ledger import Ledger, default_path
from taskveil.client.reading import CLIENT, read_device
from taskveil.client.verifying import read_key
from taskveil.errors import BudgetError, DataError, LedgerError
from taskveil.wire import Report


class Client:
    """Makes the reports of one person for one release. Every number that leaves has been through the mechanism.

    `Client.load` refuses releases that are altered, malformed, newer or (with a key) not the publisher's. `report`
    spends the release's ε once a round and never more than `cap` in all, across every release that shares the ledger.

    Close it, or use it as `with Client.load(...) as client:`; its ledger is closed with it.
    """

    def __init__(self, *, device: Device, release: bytes, statement: str, ledger: Ledger, cap: float | None) -> None:
        self.device = device
        self.release = release
        self.statement = statement
        self.ledger = ledger
        self.epsilon = device.mechanism.epsilon
        self.cap = self.epsilon if cap is None else float(cap)
        if not (math.isfinite(self.cap) and self.cap > 0):
            raise BudgetError(f"the cap must be a finite number above zero, got {cap}.")
        self._places = None if device.columns is None else {name: i for i, name in enumerate(device.columns)}

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        ledger: str | Path | None = None,
        cap: float | None = None,
        verify_key: str | Path | bytes | None = None,
    ) -> Client:
        """Read and check a release (its folder or the `client` folder in it).

        `ledger` is the file that remembers what was spent, by default one per user of the machine. `cap` is the most a
        person spends in all rounds and releases, by default this release's ε: one report. With `verify_key` (PEM file
        or its bytes, Ed25519) only releases signed by that key are accepted.
        """
        folder = Path(folder)
        device, manifest = read_device(folder / CLIENT if (folder / CLIENT).is_dir() else folder, read_key(verify_key))
        if ledger is None:
            ledger = default_path()
            try:
                ledger.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(
                    f"cannot make {ledger.parent} ({error}); pass ledger=path to a writable file."
                ) from error
        opened = Ledger(ledger)
        try:
            return cls(
                device=device,
                release=bytes.fromhex(manifest["digest"]),
                statement=manifest["guarantee"]["statement"],
                ledger=opened,
                cap=cap,
            )
        except BaseException:
            opened.close()
            raise

    def report(self, x: Any, *, round: str | int = "0") -> Report:
        """The report of this round: made now from the record x, or the one that was made before, byte for byte.

        x is a mapping of the release's column names to numbers, or the numbers in the release's order. NaN and numbers
        out of range are brought inside and reported. Raises BudgetSpentError when the cap does not allow a new report.
        """
        record = self._record(x)
        raw = self.ledger.once(self.release, str(round), self.epsilon, self.cap, lambda: self._make(record).to_bytes())
        return Report.from_bytes(raw)

    def close(self) -> None:
        """Close the ledger. What was recorded stays, and a client loaded later repeats it."""
        self.ledger.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, record: Floats) -> Report:
        """A fresh report; only the ledger calls this."""
        name = entropy.random_words(2).tobytes()
        drawn = self.device.privatize(record)[0]
        return Report(release=self.release, id=name, payload=self.device.mechanism.layout.pack(drawn.tolist()))

    def _record(self, x: Any) -> Floats:
        """One record (1, n), or a DataError that says what is wrong with its form (never with its values)."""
        width = self.device.encoder.width
        if hasattr(x, "keys") and not isinstance(x, Mapping):
            x = dict(x.items())  # a pandas Series: its names count, not its order
        if isinstance(x, Mapping):
            if self._places is None:
                raise DataError(f"this release names no columns: pass {width} numbers in its order.")
            if x.keys() != self._places.keys():
                missing, extra = (
                    sorted(self._places.keys() - x.keys()),
                    sorted(map(str, x.keys() - self._places.keys())),
                )
                raise DataError(f"the record must have exactly the release's columns: {missing=}, {extra=}.")
            x = [x[name] for name in self._places]
        try:
            values = np.asarray(x)
        except ValueError as error:
            raise DataError(f"a record is {width} numbers: {error}.") from error
        if values.shape == (1, width):
            values = values[0]
        if values.shape != (width,):
            raise DataError(f"a record of this release is {width} numbers, got shape {values.shape}.")
        if values.dtype.kind not in "iufb":
            values = np.array([_number(value) for value in values.tolist()])
        with np.errstate(over="ignore"):  # a wider float that becomes infinite is brought inside like any other
            return values.astype(np.float64)[None, :]


def _number(value: Any) -> float:
    if value is None:
        raise DataError("a value is missing (None). Pass NaN where a sensor gave nothing.")
    if not isinstance(value, Real):
        raise DataError(f"a record holds numbers only, got a {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)  # type: ignore[operator]
