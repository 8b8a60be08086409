"""What a record consists of, to look at and to correct: `schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

import taskveil as tv
from taskveil.cli import options
from taskveil.cli.console import busy, console, print_whole, refuse_existing
from taskveil.cli.jobs import chosen_columns
from taskveil.cli.volunteers import left_out, read_volunteers
from taskveil.client.fields import Coded
from taskveil.records.schema import shown
from taskveil.records.tables import read_column, select


def schema(
    data: options.Volunteers,
    target: options.Target = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the schema goes.")] = Path("schema.json"),
    overwrite: options.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the schema as JSON, and write no file.")] = False,
) -> None:
    """Infer what a record consists of from volunteers' records, and write it as JSON to read and to correct."""
    listed, dropped = options.joined(columns), options.joined(drop)
    if not as_json:
        refuse_existing(output, overwrite)
    with busy("reading", quiet=as_json):
        table = read_volunteers(data, unused=left_out(listed, dropped, target))
        found = tuple(table.column_names)
        names = chosen_columns(listed, dropped, found, tuple(name for name in found if name != target))
        inferred = tv.Schema.of(table.select(names))
    if as_json:
        typer.echo(inferred.to_json(), nl=False)
        return
    inferred.to_json(output)
    view = Table("column", "field", "different", "missing", "outside", title=f"{table.num_rows:,} volunteers")
    for name, column in zip(inferred, select(table, inferred.names), strict=True):
        values = read_column(column)[1]
        counts = (_different(values), *inferred[name].outside(values))
        view.add_row(escape(name), escape(shown(inferred[name])), *(f"{count:,}" for count in counts))
    print_whole(view)
    console.print(f"Written to {output}: correct it, and pass it to design and sweep with --schema.", soft_wrap=True)


def _different(values: Any) -> int:
    """How many different values (N,) there are: few whole numbers may be names of things, one says nothing."""
    if isinstance(values, Coded):
        return len(np.unique(values.codes[values.codes >= 0]))
    if isinstance(values, list):
        return len({value for value in values if value is not None})
    return len(np.unique(values[values == values]))  # NaN and NaT are not
