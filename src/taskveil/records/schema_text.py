"""Fields as people read and correct them: in a line of Python, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from taskveil.client.fields import Field
from taskveil.client.reading import FIELDS
from taskveil.client.record import Fields
from taskveil.errors import DataError

KINDS = {kind: part for kind, part in FIELDS.items() if part is not Fields}
"""What a field may be, by the name that releases have for it."""


SHOWN = 8
"""Values of a category, to whom looks at it."""


def shown(field: Field) -> str:
    """A field as a person would write it: what is as usual is not said, 3.0 is 3, and of many values of a category the
    first are shown."""
    said = []
    for part in _written(field):
        value = getattr(field, part.name)
        if part.name == "fill" and not field.missing:
            continue  # it is never missing
        if part.default is MISSING:
            said.append(_listed(value) if isinstance(value, tuple) else _short(value))
        elif value != part.default:
            said.append(f"{part.name}={_short(value)}")
    return f"{type(field).__name__}({', '.join(said)})"


def _written(field: Field) -> list[Any]:
    """The content of a field, without a fill that was not given, which is for the design to choose."""
    return [part for part in fields(field) if part.init and (part.name != "fill" or getattr(field, "stated", True))]


def _listed(values: tuple[str, ...]) -> str:
    more = len(values) - SHOWN
    return f"[{', '.join(map(repr, values[:SHOWN]))}{f', … {more} more' if more > 0 else ''}]"


def as_json(described: Fields) -> str:
    """Fields as JSON that a person can read and correct."""
    kinds = {part: kind for kind, part in KINDS.items()}
    entries = [
        {"name": name, "kind": kinds[type(field)]} | {part.name: getattr(field, part.name) for part in _written(field)}
        for name, field in zip(described.names, described.fields, strict=True)
    ]
    return json.dumps({"fields": entries}, indent=1, ensure_ascii=False) + "\n"


def from_json(source: str | Path) -> dict[str, Field]:
    """The fields in a JSON file, or in its text; whatever is wrong is said with the field's name."""
    text = source if isinstance(source, str) and source.lstrip().startswith("{") else _read(Path(source))
    try:
        entries = [(dict(entry), str(entry["name"]), str(entry["kind"])) for entry in json.loads(text)["fields"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f'a schema is {{"fields": [{{"name": …, "kind": …}}, …]}} ({error!r}).') from None
    names = [name for _, name, _ in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the schema has two fields named {twice!r}.")
    return {name: _field(name, kind, entry) for entry, name, kind in entries}


def _short(value: Any) -> str:
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def _field(name: str, kind: str, entry: Mapping[str, Any]) -> Field:
    part = KINDS.get(kind)
    if part is None:
        raise DataError(f"field {name!r}: a field is a {', '.join(KINDS)}, not a {kind!r}.")
    known = {option.name: option.default is MISSING for option in fields(part) if option.init}
    given = {key: value for key, value in entry.items() if key not in ("name", "kind")}
    unknown = sorted(given.keys() - known.keys())
    lost = sorted(option for option, needed in known.items() if needed and option not in given)
    if unknown or lost:
        raise DataError(f"field {name!r}: a {kind} has {', '.join(known)}; {unknown=}, missing={lost}.")
    try:
        return part(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})  # type: ignore[no-any-return]
    except DataError as error:
        raise DataError(f"field {name!r}: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}.") from None
