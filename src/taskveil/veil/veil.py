"""The result of a design: the part for devices, the part for the server, and the guarantee between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.device import Device
from taskveil.client.latent_encoders import Encoder, Function, NamedEncoder, bring
from taskveil.client.mechanisms import Mechanism
from taskveil.client.panels import Panel, times_cost
from taskveil.client.promise import beside, in_a_sentence, rounded_up, statement
from taskveil.client.reading import Files
from taskveil.client.signatures import read_key
from taskveil.client.wire import Received, receive
from taskveil.errors import BudgetError, DataError, TaskError
from taskveil.notebooks import shortened, summary
from taskveil.records.schema import Schema
from taskveil.records.tables import as_reports
from taskveil.tasks import ModelTask, Task, check_single
from taskveil.veil import release
from taskveil.veil.central import Central, central
from taskveil.veil.channels import channel_of
from taskveil.veil.decoders import Decoder
from taskveil.veil.loss_intervals import check_block
from taskveil.veil.losses import Considered, ConsideredPanel, Loss, LossBounds, expected_losses, warn_of_few
from taskveil.veil.volunteers import Outputs, Volunteers


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(ε, δ) local differential privacy for one report, for every user and every input.

    P[report(x) ∈ S] ≤ e^ε · P[report(x') ∈ S] + δ for any inputs x, x' and any set S of reports.

    With a `panel`, the same holds with `lifetime` for all reports of a person together: for any two sequences of
    records, whatever changes in them and whenever it does (`taskveil.client.panels`).

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> veil.guarantee.epsilon, veil.guarantee.delta
        (2.0, 0.0)
    """

    epsilon: float
    delta: float = 0.0
    enforced_by: str
    assumptions: tuple[str, ...] = ()
    panel: Panel | None = None

    @classmethod
    def of(
        cls, *, epsilon: float, delta: float, enforced_by: str, panel: Panel | None, assumptions: Sequence[str] = ()
    ) -> Guarantee:
        """The guarantee of reports with these budgets, and what it assumes over time.

        Args:
            epsilon, delta, enforced_by: of one report.
            panel: the planned rounds, if there are some.
            assumptions: what else it assumes.
        """
        over_time = (
            () if panel is None else ("When a device joins, and when it is on, does not depend on its records.",)
        )
        return cls(
            epsilon=epsilon, delta=delta, enforced_by=enforced_by, assumptions=(*assumptions, *over_time), panel=panel
        )

    @property
    def lifetime(self) -> float:
        """The ε of all reports of a person together; without planned rounds, of one report."""
        return self.epsilon if self.panel is None else times_cost(self.epsilon, self.panel.reports)

    @property
    def statement(self) -> str:
        """The promise in words that need no mathematics."""
        one = statement(self.epsilon, self.delta, self.enforced_by)
        return one if self.panel is None else f"{one} {self.panel.statement(self.epsilon, None, delta=self.delta)}"

    @property
    def in_a_sentence(self) -> str:
        """The first sentence of the `statement`, with ε and without how it is kept."""
        return in_a_sentence(self.epsilon, self.delta)

    def _repr_html_(self) -> str:
        rows = [
            ["ε of a report", rounded_up(self.epsilon)],
            ["δ", rounded_up(self.delta)],
            ["kept by", self.enforced_by],
        ]
        rows += panel_rows(self.panel, self.lifetime)
        rows += [["assumes", word] for word in self.assumptions]
        return summary("Guarantee", [self.in_a_sentence], rows=rows)


def panel_rows(panel: Panel | None, lifetime: float) -> list[list[str]]:
    """The rows of a summary about planned rounds, if there are some, in which all reports cost `lifetime`."""
    return [] if panel is None else [["reports of a person", str(panel)], ["ε of all of them", rounded_up(lifetime)]]


def as_epsilon(epsilon: Any, name: str = "epsilon") -> float:
    """A privacy budget: a finite number above zero.

    Args:
        epsilon: the number, or text that says one. True and False are none.
        name: what errors call it.
    """
    try:
        value = math.nan if isinstance(epsilon, bool | np.bool_) else float(epsilon)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError) as error:
        why = getattr(epsilon, "statement", "")  # of a budget over time
        raise BudgetError(f"{name} must be a number, got {epsilon!r}. {why}".rstrip()) from error
    if not (math.isfinite(value) and value > 0):
        why = getattr(epsilon, "statement", "")  # of a sweep that could name no budget
        got = epsilon if isinstance(epsilon, bool | np.bool_) else value
        raise BudgetError(f"{name} must be a finite number above zero, got {got}. {why}".rstrip())
    return value


def as_delta(delta: Any) -> float:
    """The probability with which ε may fail: 0, or a number for which noise can be made."""
    try:
        value = math.nan if isinstance(delta, bool) else float(delta)
    except (OverflowError, TypeError, ValueError):
        value = math.nan
    if value != 0 and not 2.0**-100 <= value <= 0.5:
        raise BudgetError(
            "delta is the probability with which epsilon may fail: 0, or a number from 2^-100 to 1/2, for example "
            f"1e-6; got {delta!r}."
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Size:
    """`client_bytes` of the client folder, `report_bytes` of one report's numbers, and `operations` (products,
    comparisons) that the encoder computes for one record; 0 where a model that the release only names does.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> veil.size.report_bytes
        4
    """

    client_bytes: int
    report_bytes: int
    operations: int

    def __str__(self) -> str:
        return f"{in_words(self.client_bytes, 'B')}, {in_words(self.operations, 'operations')} a report"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Veil:
    """Encoder and mechanism for the device, decoder and task for the server. Made by `taskveil.design`.

    Tables are matched by column name, in any order; arrays (N, n) must have the order of the design.

    `answering` maps reports directly to the task's outputs: the best answer to a report need not be one that the model
    gives to any record. Without it the answer is the task's output for the decoder's estimate.

    With a `panel`, a person reports in some of its planned rounds only (`taskveil.client.panels`). `considered_panels`
    lists the numbers of reports that were compared, the chosen one first.

    By the `schema`, records become numbers, and estimates become a table like the volunteers' again.

    `volunteers` are sums over the volunteers, with which `taskveil.estimate` compares people. `outputs` are the names
    of the task's outputs.

    `task` is None for a loaded release whose task is a model: models are not stored, pass yours to `Veil.load`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> reports = veil.privatize(X)  # on devices
        >>> veil.decode(reports).shape, veil.predict(reports).shape  # on the server
        ((200, 2), (200, 1))
        >>> veil
        <Veil task_aware, ε = 2, 2 attributes, reports of 4 bytes>
    """

    encoder: Encoder
    mechanism: Mechanism
    decoder: Decoder
    task: Task | None
    method: str
    columns: tuple[str, ...] | None = None
    bounds: LossBounds | None = None
    units: tuple[str, ...] | None = None
    considered: tuple[Considered, ...] = ()
    answering: Decoder | None = None
    schema: Schema = None  # type: ignore[assignment]  # without one, `__post_init__` makes one of numbers
    volunteers: Volunteers | None = None
    outputs: Outputs | None = None
    panel: Panel | None = None
    considered_panels: tuple[ConsideredPanel, ...] = ()
    _stored_id: str | None = field(init=False, default=None)
    """The id in the files. `dataclasses.replace` does not keep it: a changed veil is another release."""

    def __post_init__(self) -> None:
        n, z = self.encoder.width, self.encoder.latent_dim
        schema = self.schema or Schema.numbers(n)
        if schema.unbounded:  # `dataclasses.replace` may have brought other names or units
            schema = Schema.numbers(self.columns or schema.names, units=self.units, library=schema.library)
        object.__setattr__(self, "schema", schema)
        if self.task is not None:
            self.task.check_width(n)
        if self.mechanism.latent_dim != z or self.decoder.shape != (n, self.mechanism.report_width):
            raise DataError("encoder, mechanism and decoder of a veil must agree on attributes and latents.")
        if self.answering is not None and self.answering.shape[1] != self.mechanism.report_width:
            raise DataError("the answers of a veil must be answers to its reports.")
        if self.volunteers is not None and self.volunteers.cells.means.shape[1] < n:
            raise DataError("the sums over a veil's volunteers must be of records that its devices take.")
        _ = self.device  # checks names and units

    def __repr__(self) -> str:
        size = self.mechanism.layout.length
        return (
            f"<Veil {self.method}, ε = {rounded_up(self.mechanism.epsilon)}{beside(self.mechanism.delta)}, "
            f"{self.device.attributes} attributes, "
            f"reports of {size} byte{'s' if size > 1 else ''}{'' if self.panel is None else f', {self.panel}'}>"
        )

    def _repr_html_(self) -> str:
        size = self.size
        rows = [
            ["method", self.method],
            ["ε of a report", rounded_up(self.mechanism.epsilon) + beside(self.mechanism.delta)],
            *panel_rows(self.panel, self.guarantee.lifetime),
            ["fields", f"{len(self.schema):,}: {shortened(', '.join(self.schema.names[:20]), 80)}"],
            ["report", in_words(size.report_bytes, "B")],
            ["on the device", str(size)],
            ["release", f"{self.release_id[:12]}…"],
        ]
        return summary("Veil", [self.guarantee.in_a_sentence], rows=rows)

    @property
    def device(self) -> Device:
        """The part that runs on devices."""
        return Device(
            encoder=self.encoder,
            mechanism=self.mechanism,
            columns=self.columns,
            units=self.units,
            fields=None if self.schema.unbounded else self.schema.fields,
            panel=self.panel,
        )

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of one report.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.guarantee.epsilon
            2.0
        """
        mechanism = self.mechanism
        return Guarantee.of(
            epsilon=mechanism.epsilon, delta=mechanism.delta, enforced_by=mechanism.enforced_by, panel=self.panel
        )

    def central(self, *, reports: int, delta: float) -> Central:
        """What a crowd adds: the central (ε, δ) of one round, for those who see all reports of it without an order.

        It is far smaller than the ε of a report, which stays the promise. The proof is in docs/theory/guarantee.md.

        Args:
            reports: how many honest reports the round has. They must not be linkable to people.
            delta: the probability with which the bound may fail, for example 1e-7.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.central(reports=100_000, delta=1e-7).epsilon < 0.04
            True
        """
        return central(channel_of(self.mechanism, self.decoder), reports=reports, delta=delta)

    @property
    def release_id(self) -> str:
        """64 hexadecimal digits that identify the device's part; every report carries them.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> len(veil.release_id)
            64
        """
        if self._stored_id is None:
            object.__setattr__(self, "_stored_id", release.release_id(self.device))
        return str(self._stored_id)

    @property
    def size(self) -> Size:
        """How much a device downloads, sends and computes."""
        return Size(
            client_bytes=release.client_bytes(self.device),
            report_bytes=self.mechanism.layout.length,
            operations=self.encoder.operations,
        )

    def encode(self, X: Any) -> Floats:
        """Latents (N, Z) of records (N, n) before randomisation, after bounding.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.encode(X).shape
            (200, 1)
        """
        return self.mechanism.bound(self.encoder(self._records(X)))

    def privatize(self, X: Any) -> Integers:
        """Reports (N, width) of records (N, n): whole numbers, drawn with fresh operating-system entropy.

        Every record gets a report. Whose turn it is in a release over time, only the ledgers of devices know.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.privatize(X).shape
            (200, 1)
        """
        return self.device.privatize(self._records(X))

    def receive(self, body: bytes) -> Received:
        """The reports in the body of a POST to /v1/reports, ready for `decode`.

        Bytes that are no reports, and reports of another release, raise WireError. A report that no device can have
        made is refused alone (`.refused` says why). A report that came twice counts once.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> from tempfile import TemporaryDirectory
            >>> from taskveil.client import Client
            >>> with TemporaryDirectory() as folder:
            ...     veil.save(f"{folder}/release")
            ...     with Client.load(f"{folder}/release", ledger=f"{folder}/ledger") as client:
            ...         body = client.report(X[0]).to_bytes()
            >>> veil.decode(veil.receive(body)).shape
            (1, 2)
        """
        return receive(body, bytes.fromhex(self.release_id), self.mechanism.layout, self.mechanism.possible)

    def decode(self, reports: Any, *, probabilities: bool = False) -> Any:
        """Estimates x̂ of the records behind the reports (N, width), as a table like the volunteers': an array if the
        design was made from an array, else a table of the same package with the same columns. A DataError for a
        MeanTask and a SurveyTask, which are about all people: `tv.estimate` takes their reports.

        Args:
            reports: what devices sent.
            probabilities: add a column beside each that says how probable its value is. Numbers and dates are means:
                for them, it is the probability that there is a value. Not for tables of numbers alone.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.decode(veil.privatize(X)).shape
            (200, 2)
        """
        check_single(self.task)
        return self.schema.collapse(self.estimates(reports), probabilities=probabilities)

    def estimates(self, reports: Any) -> Floats:
        """Estimates (N, n) of the numbers that the records behind the reports (N, width) became. Those of a MeanTask
        are unbiased: their mean estimates that of the people, and each of them says almost nothing."""
        return self.decoder(self._values(reports))

    def predict(self, reports: Any) -> Floats:
        """The best answer ŷ (N, outputs) to every report (N, width), in the form of the task's outputs: values, or
        logits for a classifier. For a task with answering="record" it is f(x̂), the task's output for the estimate. A
        DataError for tasks that `decode` refuses.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> veil.predict(veil.privatize(X)).shape
            (200, 1)
        """
        check_single(self.task)
        values = self._values(reports)
        return self._task.predict(self.decoder(values)) if self.answering is None else self.answering(values)

    def _values(self, reports: Any) -> Any:
        """The values that the reports (N, width) stand for."""
        return self.mechanism.values(self.checked(reports))

    def checked(self, reports: Any) -> Integers:
        """The reports (N, width) as whole numbers; DataError unless devices can have made them with this release."""
        if isinstance(reports, Received) and reports.release.hex() != self.release_id:
            raise DataError(
                f"these are reports of release {reports.release.hex()[:12]}…, not of {self.release_id[:12]}…. Decode "
                "them with the release they were made with."
            )
        numbers = as_reports(reports, width=self.mechanism.report_width)
        held = self.mechanism.possible(numbers)
        if not held.all():
            raise DataError(
                f"report {int(np.flatnonzero(~held)[0])} holds a number that no device makes with this release; "
                "was it made with another one? Veil.receive refuses such reports one by one."
            )
        return numbers

    def loss(self, X: Any, y: Any = None, *, block: int = 1) -> Loss:
        """The expected task loss over the randomisation, with a 95% interval for other records like these.

        A FewRecordsWarning says when a few records decide the mean. A classifier's accuracy comes with it.

        Args:
            X: records (N, n).
            y: their labels, where the task needs some.
            block: for records in the order of time: the number of neighbours that are similar (30 for days within a
                month). The interval is then wider if neighbours are similar.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> loss = veil.loss(X)
            >>> loss.low < loss.mean < loss.high
            True
        """
        records = self._measurable(X)
        latents = self.encoder(records)
        per_record, exact = self._losses(self._task, records, y, latents)
        if check_block(block) > 1 and len(per_record) < 2 * block:
            raise DataError(
                f"{len(per_record)} records are less than two blocks of {block}, too few for an interval: pass a "
                "smaller block, or more records."
            )
        accuracy, by_class = None, self._task.by_class
        if by_class is not None:
            wrong = per_record if by_class is self._task else self._losses(by_class, records, y, latents)[0]
            accuracy = 1.0 - float(wrong.mean())
        loss = Loss.of(per_record, exact=exact, block=block, accuracy=accuracy)
        warn_of_few(per_record)
        return loss

    def losses(self, X: Any, y: Any = None) -> Floats:
        """The expected task loss (N,) of every record of X (N, n), with labels y where the task needs them."""
        records = self._measurable(X)
        return self._losses(self._task, records, y, self.encoder(records))[0]

    def _measurable(self, X: Any) -> Floats:
        """Records (N, n) that a loss can be measured on, or DataError."""
        records = self._records(X)
        if len(records) == 0 or not np.isfinite(records).all():
            raise DataError("the loss is measured on at least one record of finite numbers.")
        return records

    def _losses(self, task: Task, records: Floats, y: Any, latents: Floats) -> tuple[Floats, bool]:
        """The expected loss of every record (N,) whose `latents` (N, Z) are known, and whether it is a formula."""
        return expected_losses(self.device, self.decoder, task, records, y, answering=self.answering, latents=latents)

    def _records(self, X: Any) -> Floats:
        """Records (N, n): a table by its names, one record also as a mapping or a pandas Series by its names."""
        return self.schema.expand(X)

    @property
    def _task(self) -> Task:
        if self.task is None:
            raise TaskError("this veil was loaded without its task: use Veil.load(folder, task=...).")
        return self.task

    def save(self, folder: str | Path, *, overwrite: bool = False, volunteers: bool = True) -> None:
        """Write the release: `client/` for devices, `server/` for the collector. It is written whole or not at all.

        Args:
            folder: where it goes; must not exist, unless it holds a release and `overwrite` is set.
            overwrite: replace the release that is there (a reader may find none for a moment, never half of one).
            volunteers: keep in `server/` sums over groups of at least ten volunteers, which `taskveil.estimate`
                compares people with and which assume= needs. Devices never get them.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> from tempfile import TemporaryDirectory
            >>> from pathlib import Path
            >>> with TemporaryDirectory() as folder:
            ...     veil.save(f"{folder}/release")
            ...     print(sorted(path.name for path in Path(folder, "release").iterdir()))
            ['client', 'server']
        """
        private = volunteers and self.volunteers is not None
        release.save(self.files(volunteers=volunteers), Path(folder), overwrite=overwrite, private=private)

    def files(self, *, volunteers: bool = True) -> dict[str, bytes]:
        """The release as a mapping of names ("client/manifest.json" …) to bytes, which `from_files` reads.

        Args:
            volunteers: as in `save`.
        """
        parts = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return release.files_of(self.device, parts if volunteers else {**parts, "volunteers": None})

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        task: Task | None = None,
        verify_key: str | Path | bytes | None = None,
        encoder: Function | None = None,
    ) -> Veil:
        """Read a release, refusing anything altered, truncated, malformed or newer than this version.

        Args:
            folder: what `save` wrote.
            task: needed to predict when the task is a model; releases hold no models.
            verify_key: a PEM file or its bytes (Ed25519); with it, the release must be signed by that key.
            encoder: the model of a release that names one and does not contain it; only `encode`, `privatize` and
                `loss` need it. By default the task's own model, where it is the one that is named.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     veil.save(f"{folder}/release")
            ...     print(tv.Veil.load(f"{folder}/release").release_id == veil.release_id)
            True
        """
        home = Path(folder)
        return cls.from_files(
            release.release_files(home), task=task, verify_key=verify_key, encoder=encoder, where=str(home)
        )

    @classmethod
    def from_files(
        cls,
        files: Files,
        *,
        task: Task | None = None,
        verify_key: str | Path | bytes | None = None,
        encoder: Function | None = None,
        where: str = "the release",
    ) -> Veil:
        """Read a release from a mapping of names ("client/manifest.json" …) to bytes, as `load` reads a folder.

        Args:
            files: what `files` gave; other names in it are ignored.
            task: as in `load`.
            verify_key: as in `load`.
            encoder: as in `load`.
            where: what errors call the release.
        """
        parts, stored_id = release.parts_of(files, read_key(verify_key), where=where)
        if task is not None:
            task = task.on(parts["schema"])
        named = parts["encoder"].name if isinstance(parts["encoder"], NamedEncoder) else None
        if encoder is None and isinstance(task, ModelTask) and task.encoder_name == named:
            encoder = task.answers
        if encoder is not None:
            parts["encoder"] = bring(parts["encoder"], encoder, where)
        veil = cls(**{**parts, "task": task if parts["task"] is None else parts["task"]})
        object.__setattr__(veil, "_stored_id", stored_id)
        return veil


def in_words(count: int, unit: str) -> str:
    """Three digits and a unit: 512 B, 12.3 kB, 1.2 million operations."""
    if unit == "B":
        return f"{count / 1000:.3g} kB" if count >= 1000 else f"{count} B"
    for word, size in (("million ", 10**6), ("thousand ", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {word}{unit}"
    return f"{count} {unit}"
