"""One batch of reports into PostgreSQL, inside a transaction that holds `arrivals` (see postgres_settling.py)."""

from __future__ import annotations

import numpy as np

from taskveil.collector.store import catalogue
from taskveil.collector.store.batches import Batch, Growth, Key
from taskveil.collector.store.postgres_settling import Connection, executing

FEW = 100
"""Up to so many reports arrays as parameters are quicker than COPY into a temporary table."""

COLUMNS = "release integer, id bytea, round integer, payload bytea"
ARRAYS = "unnest(%s::integer[], %s::bytea[], %s::integer[], %s::bytea[]) AS come (release, id, round, payload)"
STORE = """
    WITH looked AS MATERIALIZED (
        SELECT come.*, coalesce(
            (SELECT payload FROM arrivals WHERE release = come.release AND id = come.id),
            (SELECT payload FROM settling WHERE release = come.release AND id = come.id),
            (SELECT payload FROM reports WHERE release = come.release AND id = come.id)) AS stored
        FROM {}
    ), made AS (
        INSERT INTO arrivals SELECT release, id, round, payload FROM looked WHERE stored IS NULL ORDER BY release, id
        ON CONFLICT DO NOTHING RETURNING 1
    )
    SELECT release, id, stored FROM looked WHERE stored IS NOT NULL
    UNION ALL SELECT count(*)::integer, NULL, NULL FROM made"""
GROW = """
    WITH counted AS (
        INSERT INTO counts SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bytea[], %s::bigint[])
        ON CONFLICT (round, slot, payload) DO UPDATE SET count = counts.count + excluded.count
    )
    INSERT INTO totals SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bigint[], %s::bytea[])
    ON CONFLICT (round, slot) DO UPDATE SET reports = totals.reports + excluded.reports RETURNING round, moments"""


class OvertakenError(Exception):
    """Another writer stored one of our ids between our look and our insert: begin again."""


def insert(connection: Connection, batch: Batch) -> dict[Key, bytes]:
    """Store what is new; return what is stored already under the keys of this batch."""
    if len(batch.order) <= FEW:
        rows = batch.rows()
        columns = zip(*[rows[place] for place in batch.order.tolist()], strict=True)
        found = connection.execute(STORE.format(ARRAYS), [list(one) for one in columns], binary=True).fetchall()
    else:
        with connection.cursor() as cursor, cursor.copy("COPY come FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(copied(batch))
        found = connection.execute(STORE.format("come"), binary=True).fetchall()
    stored = {(release, id): payload for release, id, payload in found if id is not None}
    made = next(count for count, id, _ in found if id is None)
    if made + len(stored) != len(batch.order):
        raise OvertakenError
    return stored


def grow(connection: Connection, slot: int, grown: dict[int, Growth]) -> None:
    """Add to the counts and totals of rounds what they gained."""
    if not grown:
        return
    rows = [
        (number, payload, count) for number, growth in grown.items() for payload, count in sorted(growth.counts.items())
    ]
    numbers, payloads, counts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    reports = [growth.reports for growth in grown.values()]
    parameters = [
        *(numbers, [slot] * len(rows), payloads, counts),
        *(list(grown), [slot] * len(grown), reports, [b""] * len(grown)),
    ]
    for number, before in connection.execute(GROW, parameters, binary=True).fetchall():
        if grown[number].moments.size:
            catalogue.add_moments(executing(connection), number, slot, before, grown[number].moments)


def copied(batch: Batch) -> bytes:
    """The different reports of a batch as COPY's binary format wants them."""
    parts = [b"PGCOPY\n\xff\r\n\0" + bytes(8)]
    winners, at = batch.winners, 0
    for place in batch.places:
        one = batch.submissions[place]
        here = winners[at : at + len(one.ids)]
        at += len(one.ids)
        size = one.payloads.shape[1]
        fields = [("fields", ">i2")]
        for name, width in (("release", 4), ("id", 16), ("round", 4), ("payload", size)):
            fields += [(f"{name}_size", ">i4"), (name, ">i4" if name in ("release", "round") else f"({width},)u1")]
        rows = np.zeros(int(here.sum()), dtype=fields)
        rows["fields"] = 4
        rows["release_size"] = rows["round_size"] = 4
        rows["id_size"], rows["payload_size"] = 16, size
        rows["release"], rows["round"] = batch.rounds[one.round].release, one.round
        rows["id"], rows["payload"] = one.ids[here], one.payloads[here]
        parts.append(rows.tobytes())
    return b"".join([*parts, b"\xff\xff"])
