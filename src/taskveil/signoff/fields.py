"""The fields of a record in plain words: what a value may be, and what becomes of it on the device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.client.fields import BaseField, Category, Count, Date, Flag, Words
from taskveil.records.schema import SHOWN_VALUES
from taskveil.tasks import SurveyTask
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Family, Veil
from taskveil.veil.channels import channel_of
from taskveil.veil.surveys import questions

STAYS = "Stays on the device. No report depends on it."


def fields_of(release: Veil | Family) -> list[dict[str, Any]]:
    """Name, kind, permitted values and fate of every field; of a family, the fate in each member."""
    members = release.members if isinstance(release, Family) else {"": release}
    first = next(iter(members.values()))
    fates = {member: becomes(veil) for member, veil in members.items()}
    found = []
    for place, (name, field) in enumerate(zip(first.schema, first.schema.fields.fields, strict=True)):
        each = {member: fates[member][place] for member in members}
        same = len(set(each.values())) == 1
        fate = next(iter(each.values())) if same else " ".join(f"{member}: {each[member]}" for member in members)
        kind, values = described(field, _limits(first, place))
        found.append({"name": name, "kind": kind, "values": values, "becomes": fate})
    return found


def _limits(veil: Veil, place: int) -> tuple[float, float]:
    """Where the design cuts off the field at this place, if the field itself has no bounds."""
    ends = (getattr(veil.encoder, name, None) for name in ("low", "high"))
    low, high = (
        float(end[place]) if isinstance(end, np.ndarray) and veil.schema.unbounded else math.nan for end in ends
    )
    return low, high


def described(field: BaseField, limits: tuple[float, float]) -> tuple[str, str]:
    """The kind of a field and its permitted values, in words.

    Args:
        field: of the schema.
        limits: of a number without bounds of its own, those of the design; NaN if there are none.
    """
    optional = " It may be missing." if field.missing else ""
    if isinstance(field, Category):
        listed = ", ".join(field.values[:SHOWN_VALUES])
        more = len(field.values) - SHOWN_VALUES
        rest = f" and {more:,} more" if more > 0 else ""
        return "one of some values", f"{listed}{rest}. All others count as one other value.{optional}"
    if isinstance(field, Flag):
        return "yes or no", f"Yes or no.{optional}"
    if isinstance(field, Date):
        return "date", f"From {field.low} to {field.high}.{optional}"
    if isinstance(field, Words):
        return "any text", f"Any text. A hash maps it to one of {field.prime**2:,} points."
    unit = f" {field.unit}" if field.unit else ""
    low, high = (field.box[0][0], field.box[1][0]) if field.bounded else limits
    kind = "whole number" if isinstance(field, Count) else "number"
    if not (math.isfinite(low) and math.isfinite(high)):
        return kind, f"Any number{unit and f' (in{unit})'}; the design limits the record as a whole.{optional}"
    return kind, f"From {low:,.6g} to {high:,.6g}{unit}. Others count as the nearest limit.{optional}"


def becomes(veil: Veil) -> list[str]:
    """What becomes of every field in the reports of one release."""
    names, task = veil.schema.names, veil.task
    if veil.method == "constant":
        return [STAYS] * len(names)
    if isinstance(task, SurveyTask):
        return [_asked(veil, name) for name in names]
    if isinstance(task, MatrixTask):
        weighed = np.abs(task.on(veil.schema).K).max(axis=0) > 0
        used = [bool(weighed[place].any()) for place in veil.schema.fields.places]
    else:
        used = [True] * len(names)
    if channel_of(veil.mechanism, veil.decoder).unbiased:
        sent = "Part of an answer that is changed at random before it is sent. Only means over many people are useful."
    else:
        sent = "Used on the device, with the other fields, to choose the report. The value itself is not sent."
    return [sent if one else STAYS for one in used]


def _asked(veil: Veil, name: str) -> str:
    """What a survey asks about a field."""
    asked = [one for one in questions(veil) if name in one.fields]
    if not asked:
        return STAYS
    share = sum(one.chance for one in asked)
    others = dict.fromkeys(other for one in asked for other in one.fields if other != name)
    beside = f" Some of these questions are about {', '.join(others)} too." if others else ""
    return (
        f"Asked in {100 * share:.3g}% of the reports, which are drawn at random. The answer is changed at random "
        f"before it is sent.{beside}"
    )
