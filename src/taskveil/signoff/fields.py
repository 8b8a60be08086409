"""The fields of a record in plain words: what a value may be, and what becomes of it on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.arrays import Bools
from taskveil.client.base_field import BaseField
from taskveil.client.latent_encoders import AttributeEncoder, Encoder, LinearEncoder, TabledEncoder
from taskveil.records.schema import SHOWN_VALUES
from taskveil.tasks import SurveyTask
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


def described(field: BaseField, limits: tuple[float, float] | None) -> tuple[str, str]:
    """The kind of a field and its permitted values, in words.

    Args:
        field: of the schema.
        limits: of a number without bounds of its own, those of the design, if there are any.
    """
    kind, optional = field.plain_kind or field.kind, " It may be missing." if field.missing else ""
    low, high = limits or (getattr(field, end, None) for end in ("low", "high"))
    if field.exclusive:
        more = len(field.words) - SHOWN_VALUES
        listed = ", ".join(field.words[:SHOWN_VALUES]) + (f" and {more:,} more" if more > 0 else "")
        return kind, f"{listed}. All others count as one other value.{optional}"
    if field.reads_as[0] == "share":
        return kind, f"Yes or no.{optional}"
    if low is None or high is None:
        return kind, f"Any. A hash of the text is used.{optional}"
    first, last = (one if isinstance(one, str) else f"{one:,.10g}" for one in (low, high))
    unit = f" {field.unit}" if field.unit else ""
    return kind, f"From {first} to {last}{unit}. Others count as the nearest limit.{optional}"


def _limits(veil: Veil, place: int) -> tuple[float, float] | None:
    """Where the encoder cuts off the number at this place, if fields have no bounds."""
    if not veil.schema.unbounded:
        return None
    return float(veil.encoder.low[place]), float(veil.encoder.high[place])


def becomes(veil: Veil) -> list[str]:
    """What becomes of every field in the reports of one release."""
    used = numbers_used(veil.encoder)
    if channel_of(veil.mechanism, veil.decoder).unbiased:
        sent = "Part of an answer that is changed at random before it is sent. Only means over many people are useful."
    else:
        sent = "Used on the device, with the other fields, to choose the report. The value itself is not sent."
    survey = isinstance(veil.task, SurveyTask)
    return [
        STAYS if not used[place].any() else _asked(veil, name) if survey else sent
        for name, place in zip(veil.schema, veil.schema.fields.places, strict=True)
    ]


def numbers_used(encoder: Encoder) -> Bools:
    """(n,): which numbers of a record a report can depend on. The weights of the device decide it, not the task: some
    methods report what their task does not need. Where weights do not show it, all may be used."""
    inner = encoder.encoder if isinstance(encoder, TabledEncoder) else encoder
    if isinstance(inner, LinearEncoder):
        return np.asarray((inner.weights != 0).any(axis=0))
    if isinstance(inner, AttributeEncoder):
        return np.isin(np.arange(inner.width), inner.places)
    return np.ones(encoder.width, dtype=bool)


def _asked(veil: Veil, name: str) -> str:
    """What a survey asks about a field."""
    asked = [one for one in questions(veil) if name in one.fields]
    share = sum(one.chance for one in asked)
    others = dict.fromkeys(other for one in asked for other in one.fields if other != name)
    beside = f" Some of these questions are about {', '.join(others)} too." if others else ""
    return (
        f"Asked in {100 * share:.3g}% of the reports, which are drawn at random. The answer is changed at random "
        f"before it is sent.{beside}"
    )
