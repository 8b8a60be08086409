"""Options that several commands have, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from taskveil.errors import TaskError

if TYPE_CHECKING:
    import taskveil as tv

Volunteers = Annotated[Path, typer.Argument(help="CSV or Parquet of volunteers' records, a person a row.")]
Target = Annotated[str | None, typer.Option(help="The column that the model predicts; no attribute of a record.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="An ONNX file, or package.module:object, a scikit-learn or torch model (or a function that returns one) "
        "of a module here. Without one, the weighted columns are the task."
    ),
]
LossName = Annotated[
    str | None, typer.Option("--loss", help="mse, cross_entropy or zero_one; by default by the model.")
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="What a record consists of, as `taskveil schema` writes it.")
]
Columns = Annotated[
    list[str] | None, typer.Option(help="The columns a record consists of, with commas between. Repeatable.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas between. Repeatable.")]
Bounds = Annotated[
    list[str] | None, typer.Option("--domain", help="column=low:high, where its values may lie. Repeatable.")
]
Weight = Annotated[
    list[str] | None,
    typer.Option(help="column=weight, times 1/spread; the others count 1. Repeatable."),
]
Means = Annotated[
    bool,
    typer.Option(
        "--means", help="The columns' means over all people are the task, unbiased for any population (estimate)."
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
ClientBytes = Annotated[int, typer.Option(help="The most that the client folder may take.", min=1024)]
CLIENT_BYTES = 512 * 1024
"""What a client folder may take by default, as in `tv.design`."""
AnswersName = Annotated[
    str, typer.Option("--answers", help="direct, the best answer given a report; record, the model's to the estimate.")
]
Seed = Annotated[int, typer.Option(help="Of the search for a design; reports are never seeded.", min=0)]
TorchDevice = Annotated[str, typer.Option("--device", help="Where designs learn: cpu or cuda.")]
Release = Annotated[Path, typer.Option(help="The release.")]
VerifyKey = Annotated[Path | None, typer.Option(help="PEM file; the release must be signed by this key.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="plain, this process; or ray, as many machines as a Ray cluster has.")
]
Address = Annotated[
    str | None,
    typer.Option(help="With --engine ray, the cluster's: host:port, or auto. By default this machine's cores."),
]
Workers = Annotated[int | None, typer.Option(help="With --engine ray, how many work at a time.", min=1)]
Gpus = Annotated[
    float, typer.Option(help="With --engine ray, GPUs or shares of one that every task takes for itself.", min=0.0)
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def answering(answers: str) -> Literal["direct", "record"]:
    """The value of --answers, checked."""
    if answers not in ("direct", "record"):
        raise TaskError(f"--answers takes direct or record, got {answers!r}.")
    return cast('Literal["direct", "record"]', answers)


def cluster(engine: str, address: str | None, workers: int | None, gpus: float) -> tv.Ray | None:
    """The cluster that --engine, --address, --workers and --gpus ask for; None for this process."""
    import taskveil as tv
    from taskveil.jobs.ray_working import check_engine

    check_engine(engine, address, workers)
    if engine == "plain" and gpus:
        raise TaskError("--gpus is about a Ray cluster: pass --engine ray too.")
    return tv.Ray(address=address, workers=workers, gpus=gpus) if engine == "ray" else None


def joined(listed: list[str] | None) -> str | None:
    """What an option that may be repeated lists in all, with commas between: the first is not lost with the second."""
    return ",".join(listed) if listed else None
