"""Options that several commands have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from taskveil.errors import TaskError

if TYPE_CHECKING:
    import taskveil as tv
    from taskveil.jobs.csv_format import CsvFormat
    from taskveil.jobs.running import Engine

Volunteers = Annotated[Path, typer.Argument(help="CSV or Parquet file of volunteers' records, one person in each row.")]
Target = Annotated[str | None, typer.Option(help="The column that the model predicts. It is not part of a record.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="An ONNX file, or package.module:object, a scikit-learn or torch model (or a function that returns one) "
        "of a module in this folder. Without a model, the weighted columns are the task."
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        help="The probability with which the budget of a report may fail, such as 1e-6; Gaussian noise uses it."
    ),
]
Lifetime = Annotated[
    float | None,
    typer.Option(help="Budget of all reports of a person in planned rounds, with --rounds, in place of one report's."),
]
Rounds = Annotated[int | None, typer.Option(help="With --lifetime: how many rounds are planned.", min=1)]
PerReport = Annotated[
    float | None,
    typer.Option(help="With --lifetime: the budget of one report; by default the design chooses how many there are."),
]
FirstRound = Annotated[
    str | None,
    typer.Option(help="With --lifetime: the first day of the first round, as 2026-11-16. Rounds then have dates."),
]
Days = Annotated[int | None, typer.Option(help="With --first-round: how many days a round takes; by default 7.", min=1)]
LossName = Annotated[
    str | None, typer.Option("--loss", help="mse, cross_entropy or zero_one; the default depends on the model.")
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="The fields of a record, as `taskveil schema` writes them.")
]
Columns = Annotated[list[str] | None, typer.Option(help="The columns of a record, separated by commas. Repeatable.")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, separated by commas. Repeatable.")]
Bounds = Annotated[
    list[str] | None, typer.Option("--domain", help="column=low:high, the range of its values. Repeatable.")
]
Weight = Annotated[
    list[str] | None,
    typer.Option(help="column=weight, multiplied by 1/spread; the default weight is 1. Repeatable."),
]
Means = Annotated[
    bool,
    typer.Option("--means", help="The task is the mean of every column over all people, unbiased for any population."),
]
Survey = Annotated[
    bool,
    typer.Option("--survey", help="The task is a survey: means, shares, missing values, by group, cross-tables."),
]
AskedFields = Annotated[
    list[str] | None,
    typer.Option("--fields", help="With --survey: the columns asked for, separated by commas; by default all."),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="With --survey: every statistic also for each value of this column. Repeatable."),
]
PairsOfColumns = Annotated[
    list[str] | None, typer.Option("--pairs", help="With --survey: a,b for the cross-table of two columns. Repeatable.")
]
Histograms = Annotated[
    list[str] | None,
    typer.Option("--histogram", help="With --survey: column=edge,edge,… for the shares of its bins. Repeatable."),
]
People = Annotated[int | None, typer.Option(help="How many people will report.", min=1)]
Margin = Annotated[
    float,
    typer.Option(
        help="The widest 95% margin that is enough: 0.02 is 2 points of a share, and 2% of the range of a number."
    ),
]
Units = Annotated[list[str] | None, typer.Option("--unit", help="column=unit, written into the release. Repeatable.")]
Encoder = Annotated[
    str, typer.Option(help="What devices compute for a model: auto, linear, light, trees or own (the model itself).")
]
ShareModel = Annotated[
    bool,
    typer.Option("--share-model", help="The model may run on the devices: everybody who has one then has the model."),
]
ClientBytes = Annotated[
    int | None, typer.Option(help="The largest size of the client folder in bytes; 524288 by default.", min=1024)
]
AnswersName = Annotated[
    str, typer.Option("--answers", help="direct, the best answer given a report; record, the model's to the estimate.")
]
Seed = Annotated[int, typer.Option(help="Seed of the search for a design; reports are never seeded.", min=0)]
TorchDevice = Annotated[str, typer.Option("--device", help="Where torch trains: cpu or cuda.")]
Release = Annotated[Path, typer.Option(help="The release.")]
VerifyKey = Annotated[
    Path | None, typer.Option(help="PEM file with a public key; the release must be signed by this key.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or folder.")]
Verify = Annotated[bool, typer.Option(help="Compare the parts of a folder with the SHA-256 in its manifest.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="plain, this process; or ray, as many machines as a Ray cluster has.")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: the cluster's address, host:port or auto. By default the cores of this machine."
    ),
]
Workers = Annotated[int | None, typer.Option(help="With --engine ray: how many work at a time.", min=1)]
Gpus = Annotated[
    float, typer.Option(help="With --engine ray: GPUs, or fractions of one, that every task reserves.", min=0.0)
]
Sep = Annotated[str, typer.Option("--sep", help="CSV: what separates cells, such as ';' or the word tab.")]
Decimal = Annotated[str, typer.Option("--decimal", help="CSV: the decimal sign, . or a comma.")]
DateFormat = Annotated[
    str | None, typer.Option("--date-format", help="CSV: how dates are written, such as %d.%m.%Y for 04.03.2021.")
]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="CSV: a text that stands for no value, such as -99. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def on_device(encoder: str, share_model: bool, client_bytes: int | None) -> tv.OnDevice:
    """The `tv.OnDevice` of --encoder, --share-model and --client-bytes."""
    import taskveil as tv

    if encoder == "own" and not share_model:
        raise TaskError(
            "--encoder own puts the model on every device, and everybody who has one has the model. If you want that, "
            "pass --share-model."
        )
    asked = tv.OnDevice(encoder=encoder, share_model=share_model)
    return asked if client_bytes is None else replace(asked, max_bytes=client_bytes)


def over_time(
    lifetime: float | None, rounds: int | None, per_report: float | None, first_round: str | None, days: int | None
) -> tv.OverTime | None:
    """The `tv.OverTime` of --lifetime, --rounds, --per-report, --first-round and --days; None without any of them."""
    import taskveil as tv

    others = {"--rounds": rounds, "--per-report": per_report, "--first-round": first_round, "--days": days}
    given = [name for name, value in others.items() if value is not None]
    if lifetime is None:
        if given:
            raise TaskError(f"{given[0]} goes with --lifetime, the budget of all reports of a person together.")
        return None
    if rounds is None:
        raise TaskError("--lifetime goes with --rounds: how many rounds are planned.")
    if days is not None and first_round is None:
        raise TaskError("--days goes with --first-round: rounds are then named after dates.")
    return tv.OverTime(
        lifetime=lifetime, rounds=rounds, per_report=per_report, start=first_round, days=7 if days is None else days
    )


def check_methods(methods: list[str], device: str) -> None:
    """A TaskError unless these are names of methods, and --device is one that torch may have."""
    from taskveil.designs.designing import designer_of

    for method in methods:
        designer_of(method)
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise TaskError(f"--device takes cpu or cuda, got {device!r}.")


def answering(answers: str) -> Literal["direct", "record"]:
    """The value of --answers, checked."""
    if answers not in ("direct", "record"):
        raise TaskError(f"--answers takes direct or record, got {answers!r}.")
    return cast('Literal["direct", "record"]', answers)


def csv_format(sep: str, decimal: str, date_format: str | None, missing: list[str] | None) -> CsvFormat:
    """The way to write CSV of --sep, --decimal, --date-format and --missing."""
    from taskveil.jobs.csv_format import CsvFormat

    separator = "\t" if sep in ("tab", "\\t") else sep
    return CsvFormat(separator=separator, decimal=decimal, dates=date_format, missing=tuple(missing or ()))


def job_engine(engine: str, address: str | None, workers: int | None) -> Engine:
    """Where a job over tables runs, as --engine, --address and --workers say."""
    from taskveil.jobs.running import Engine

    return Engine(name=engine, address=address, workers=workers)  # type: ignore[arg-type]


def cluster(engine: str, address: str | None, workers: int | None, gpus: float, device: str) -> tv.Ray | None:
    """The cluster of --engine, --address, --workers and --gpus for this --device; None for this process."""
    import taskveil as tv
    from taskveil.jobs.running import check_engine

    check_engine(engine, address, workers)
    if engine == "plain" and gpus:
        raise TaskError("--gpus is about a Ray cluster: pass --engine ray too.")
    if engine == "ray" and device != "cpu" and not gpus:
        raise TaskError("workers on Ray see a GPU only if they reserve one: pass --gpus 1 too, for example.")
    return tv.Ray(address=address, workers=workers, gpus=gpus) if engine == "ray" else None


def joined(listed: list[str] | None) -> str | None:
    """All values of an option that may be repeated, separated by commas."""
    return ",".join(listed) if listed else None
