"""What a veil is given before it is a release: the volunteers to compare people with, and the columns' names."""

from __future__ import annotations

from dataclasses import replace

from taskveil.designs.problem import Problem
from taskveil.reference import Reference
from taskveil.veil import Veil


def finished(veil: Veil, problem: Problem, columns: tuple[str, ...] | None) -> Veil:
    """The veil with what it needs beyond its design, from the volunteers of `problem` as they came, whose attributes
    are called `columns`."""
    if veil.reference is None:  # learned encoders know the volunteers by heart, and bring their own
        reference = Reference.of(problem.task, problem.X, problem.y, veil.encoder(problem.X))
        veil = replace(veil, reference=reference)
    schema = problem.schema
    if schema is None:
        return replace(veil, columns=columns)
    return replace(veil, schema=schema, columns=schema.names, units=schema.fields.units)
