"""Records made up from a schema alone, where there are no volunteers."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.client.values import DAY
from taskveil.errors import DataError
from taskveil.records.schema import Schema


def even_records(schema: Schema, count: int = 5_000) -> Any:
    """A table of `count` records with even shares and numbers spread over their bounds, fields independent."""
    if schema.unbounded:
        raise DataError("this schema has numbers without bounds: state them, tv.Number(low, high), or pass records.")
    rng, columns = np.random.default_rng(0), list[Any]()
    for field in schema.fields.fields:
        order = rng.permutation(count)
        if field.reads_as[0] == "share":
            columns.append([field.samples()[place % len(field.samples())] for place in order.tolist()])
            continue
        low, high = field.box[0][0], field.box[1][0]
        values = low + (order + 0.5) / count * (high - low)
        is_date = field.reads_as[0] == "date"
        columns.append(np.rint(values * DAY).astype("datetime64[s]") if is_date else values)
    return schema.collapse(schema.fields.expand(columns))
