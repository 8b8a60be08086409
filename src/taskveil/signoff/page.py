"""The page of a dossier: one file with everything inside, for screens of any width and for paper.

Every text is escaped by `_text`, which all helpers use. No script, no font and no picture comes from elsewhere, and a
content security policy forbids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from taskveil.client.promise import beside
from taskveil.estimates.picture import MOST_ROWS
from taskveil.signoff.odds import BEFORE, budget, percent
from taskveil.signoff.picture import picture

NOT_STATED = "Not stated."
LEVELS = {"kept": "", "weak": "Weak protection", "none": "No protection"}

Content = Mapping[str, Any]


def page(content: Content) -> str:
    """The page as HTML text, from the content that the JSON file has too."""
    title, release = content["stated"]["title"], content["release"]
    sections = (
        _glance(content),
        _section("Purpose", _paragraph(content["stated"]["purpose"] or NOT_STATED), _members(release["members"])),
        _section("What is asked, and what becomes of it", _fields(content["fields"]), _list(content["report"])),
        _section("What one report can reveal", _promise(content)),
        _section("What all planned reports add up to", _total(content["total"])),
        *([_section("What a crowd adds", *map(_crowd, content["crowd"]))] if content["crowd"] else []),
        _section("What a person can see and refuse", _people(content["people"])),
        _section("What is stored, and for how long", _stored(content)),
        _section("What is not protected", _table(("what", "why", "what to do"), _risks(content))),
        _section("What results to expect", *map(_utility, content["utility"]), _measured(content["stated"]["utility"])),
        _section("Audit", _audit(content["audit"])),
        _section("Signature and identity", _identity(content)),
        _section("Checklist", _checklist(content["checklist"])),
        _section("Decision", _decision(content["roles"])),
    )
    numbered = "".join(f"<section>{one}</section>" for one in sections)
    # The id is hexadecimal digits: nothing else may stand in a style.
    style = _STYLE.replace("RELEASE", "".join(one for one in release["id"][:12] if one in "0123456789abcdef"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(f'Dossier: {title}')}</title>\n<style>{style}</style></head>\n<body>"
        "<header><p class=quiet>Dossier of a data collection with local differential privacy</p>"
        f"<h1>{_text(title)}</h1>"
        f"<p class=quiet>Made on {_text(content['date'])} with taskveil {_text(content['taskveil'])}</p></header>\n"
        f"<main>{numbered}</main></body></html>\n"
    )


def _text(value: Any) -> str:
    """Text that HTML takes as text; ε stays on the line of its value."""
    return escape(str(value)).replace("ε = ", "ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def _section(title: str, *parts: str) -> str:
    return f"<h2>{_text(title)}</h2>" + "".join(parts)


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{kind and f' class={kind}'}>{_text(text)}</p>" if text else ""


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that becomes a list of blocks on narrow screens, where each cell names its column."""
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    cells = (
        "".join(f'<td data-head="{_text(one)}">{_text(cell)}</td>' for one, cell in zip(heads, row, strict=True))
        for row in rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _level(level: str | None) -> str:
    """A mark for a protection that is weak or lost."""
    return f'<strong class="mark {level}">{LEVELS[level]}</strong> ' if level and LEVELS[level] else ""


def _glance(content: Content) -> str:
    """The first lines: what somebody reads who reads nothing else."""
    total, audit, release = content["total"], content["audit"], content["release"]
    planned = NOT_STATED
    if total["epsilon"] is not None:
        rounds = "" if total["rounds"] is None else f"{total['rounds']:,} round{'s' if total['rounds'] > 1 else ''}: "
        if total["panel"] is not None:
            made = total["allowed"] if _stopped(total) else total["rounds"]
            rounds = f"{made:,} of {total['panel']['rounds']:,} rounds: "
        elif _stopped(total):
            rounds = f"{total['allowed']:,} of {rounds}"
        planned = f"{rounds}{budget(total['epsilon'])}{beside(total['delta'])}"
    verdict = "No audit was given."
    if audit is not None:
        failed = "" if audit["passed"] else '<strong class="mark none">Do not release</strong> '
        result = "Passed" if audit["passed"] else "Failed"
        verdict = f"{failed}{result}, <span class=date>{_text(audit['date'])}</span>"
    state = {"verified": "Verified", "signed": "Signed, not checked", "unsigned": "Not signed", "unknown": "Not known"}
    promise = content["promise"]
    single = f"{budget(promise['epsilon'])}{beside(promise['delta'])}"
    rows = (
        ("Budget of one report", _level(promise["level"]) + _text(single)),
        ("Of all planned reports", _level(total["level"]) + _text(planned)),
        ("Audit", verdict),
        ("Signature", _text(state[release["signature"]["state"]])),
        ("Release", f"<code>{_text(release['id'][:12])}…</code>"),
    )
    return "<dl class=glance>" + "".join(f"<div><dt>{_text(a)}</dt><dd>{b}</dd></div>" for a, b in rows) + "</dl>"


def _stopped(total: Content) -> bool:
    """Whether devices stop before the last planned round."""
    return total["rounds"] is not None and total["allowed"] is not None and total["allowed"] < total["rounds"]


def _members(members: Sequence[Content]) -> str:
    """What reports are for; of a family, one line for each member."""
    if len(members) == 1:
        return _paragraph(f"Reports are for {members[0]['task']}.")
    lines = []
    for one in members:
        share = "chosen by people" if one["share"] is None else f"{100 * one['share']:.3g}% of the reports"
        lines.append(f"{one['name']}: {one['task']} ({share}, {budget(one['epsilon'])}{beside(one['delta'])}).")
    return _paragraph("There are several kinds of report:") + _list(lines)


def _fields(fields: Sequence[Content]) -> str:
    """The fields of a record; what becomes of all of them alike is said once."""
    heads, parts = ("field", "kind", "permitted values"), ("name", "kind", "values")
    if len({one["becomes"] for one in fields}) == 1:
        return _table(heads, [[one[part] for part in parts] for one in fields]) + _paragraph(
            f"What becomes of {'each value' if len(fields) > 1 else 'the value'}: {fields[0]['becomes']}"
        )
    return _table((*heads, "what becomes of it"), [[one[part] for part in (*parts, "becomes")] for one in fields])


def _promise(content: Content) -> str:
    """The promise with its picture, and the numbers of the picture as a table."""
    promise, gains = content["promise"], content["gains"]
    explained = (
        "ε (epsilon) is the privacy budget: the smaller it is, the less a report can reveal. It limits how much "
        "somebody can learn about a person from the report, whatever they know already and whatever the record "
        "contains."
    )
    reports = None if _stopped(content["total"]) else content["total"]["rounds"]
    every = any(row["after_all"] is not None for row in gains)
    heads = ("sure before", "after one report, at most", *(["after all planned reports, at most"] if every else []))
    rows = [
        (
            BEFORE[row["before"]],
            percent(row["after_one"]),
            *([percent(row["after_all"])] if row["after_all"] is not None else []),
        )
        for row in gains
    ]
    return (
        f"<p>{_level(promise['level'])}{_text(promise['words'])}</p>"
        f"{_paragraph(explained)}<figure>{picture(gains, reports)}</figure>{_table(heads, rows)}"
        f"{_paragraph('The promise of a report, as a person reads it on the device:')}"
        f"<blockquote>{_text(promise['statement'])}</blockquote>"
        f"{_paragraph('This assumes:') + _list(promise['assumptions']) if promise['assumptions'] else ''}"
    )


def _total(total: Content) -> str:
    kind = f"callout {total['level']}" if total["level"] else "callout"
    return f'<p class="{kind}">{_level(total["level"])}{_text(total["words"])}</p>'


def _crowd(one: Content) -> str:
    name = f"{one['member']}: " if one["member"] else ""
    return f"{_paragraph(name + one['words'])}{_list(one['assumes'])}"


def _people(people: Content) -> str:
    return f"<h3>See</h3>{_list(people['sees'])}<h3>Refuse</h3>{_list(people['refuses'])}"


def _stored(content: Content) -> str:
    stated = content["stated"]
    return (
        "<dl><dt>How long reports are kept (stated by the operator)</dt>"
        f"<dd>{_text(stated['retention'] or NOT_STATED)}</dd>"
        "<dt>What else is stored (stated by the operator)</dt>"
        f"<dd>{_text(stated['stored'] or NOT_STATED)}</dd></dl>"
        f"<h3>With taskveil's collector</h3>{_list(content['collector'])}"
    )


def _risks(content: Content) -> list[tuple[str, ...]]:
    return [(one["what"], one["why"], one["advice"]) for one in content["not_protected"]]


def _utility(one: Content) -> str:
    """Expected margins or losses of one release or member."""
    title = f"<h3>{_text(one['member'])}</h3>" if one["member"] else ""
    parts = [title, _paragraph(one["words"])]
    if one["margins"]:
        listed = one["margins"] if len(one["margins"]) <= MOST_ROWS else one["summary"]
        widest = sorted(listed, key=lambda row: -row["share_of_range"])[:MOST_ROWS]
        shown = [row for row in listed if row in widest]
        rows = [(row["name"], row["expected"], row["margin"]) for row in shown]
        parts.append(_table(("statistic", "expected", "95% margin"), rows))
        if len(listed) < len(one["margins"]) or len(shown) < len(listed):
            which = f"The {len(shown)} widest lines. " if len(shown) < len(listed) else ""
            said = f"{which}The JSON file has the margins of all {len(one['margins'])} statistics."
            parts.append(_paragraph(said, "quiet"))
    if one["losses"]:
        losses = [
            ("this release" if row["chosen"] else "one answer for everybody, without reports", f"{row['loss']:.4g}")
            for row in one["losses"]
            if row["chosen"] or row["method"] == "constant"
        ]
        parts.append(_table(("design", "loss"), losses))
    return "".join(parts)


def _measured(stated: str | None) -> str:
    return "" if stated is None else f"<dl><dt>Stated by the operator</dt><dd>{_text(stated)}</dd></dl>"


def _audit(audit: Content | None) -> str:
    """The verdict, and each check."""
    if audit is None:
        return _paragraph(
            "No audit was given. An audit attacks the release and reports what it could prove: taskveil audit RELEASE "
            "--json > audit.json. It can show that the promise is broken, never that it is kept."
        )
    shown = (
        f"On {audit['date']}, {audit['trials']:,} reports of each of two inputs were compared, for the inputs that are "
        f"easiest to distinguish. The audit could show ε of at least {audit['epsilon_lower']:.3g}; promised is "
        f"{budget(audit['epsilon_claimed'])}."
    )
    counts = Counter(one["outcome"] for one in audit["checks"])
    listed = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    checked = f"Checks of the program itself: {listed}. The JSON file has each of them." if listed else ""
    rows = [(one["name"], one["detail"]) for one in audit["checks"] if one["outcome"] == "broken"]
    kind = "callout" if audit["passed"] else "callout none"
    return (
        f'<p class="{kind}">{_text(audit["verdict"])}</p>{_paragraph(shown)}'
        f"{_paragraph(checked)}{_table(('broken check', 'detail'), rows) if rows else ''}"
        + _paragraph("An audit can show that a promise is broken. Only a proof can show that it is kept.", "quiet")
    )


def _identity(content: Content) -> str:
    """The id, the state of the signature, and the size of what devices load."""
    release = content["release"]
    rows = [("signature", release["signature"]["words"])]
    for one in release["members"]:
        name = f"{one['name']}: " if one["name"] else ""
        rows.append((f"{name}method", one["method"]))
        rows.append((f"{name}download of a device", f"{one['client_bytes']:,} bytes"))
    ids = {"release id": release["id"]} | {f"{one['name']}: id": one["id"] for one in release["members"] if one["name"]}
    codes = "".join(f"<dt>{_text(name)}</dt><dd><code>{_text(id)}</code></dd>" for name, id in ids.items())
    return f"<dl>{codes}" + "".join(f"<dt>{_text(a)}</dt><dd>{_text(b)}</dd>" for a, b in rows) + "</dl>"


def _checklist(lines: Sequence[Content]) -> str:
    """Boxes: those that the program answers, and those for a pen."""
    marks = {True: ("yes", "☑", "yes"), False: ("no", "☒", "no"), None: ("open", "☐", "to be answered")}
    items = []
    for one in lines:
        kind, mark, said = marks[one["holds"]]
        items.append(f'<li class={kind}><span role="img" aria-label="{said}">{mark}</span> {_text(one["text"])}</li>')
    note = "☑ and ☒ were found by the program. ☐ is for you to answer."
    return f"<ul class=checks>{''.join(items)}</ul>{_paragraph(note, 'quiet')}"


def _decision(roles: Sequence[str]) -> str:
    """Lines to sign."""
    lines = "".join(
        f"<div class=sign><strong>{_text(role)}</strong><span>Name</span><span>Date</span><span>Signature</span></div>"
        for role in roles
    )
    choice = "<p>☐ approved &emsp; ☐ approved with conditions &emsp; ☐ not approved</p><p class=line>Conditions</p>"
    return choice + lines


_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1f2937; --quiet: #4b5563; --line: #d1d5db; --soft: #f3f4f6;
  --before: #9ca3af; --one: #2563eb; --all: #b45309; --track: #e5e7eb; --weak: #78350f; --weak-soft: #fef3c7;
  --none: #991b1b; --none-soft: #fee2e2; --good: #166534; }
@media (prefers-color-scheme: dark) { :root { --ground: #11161d; --ink: #e6eaf0; --quiet: #a7b1bf; --line: #364255;
  --soft: #1b232e; --before: #8693a5; --one: #7fabff; --all: #f0a45c; --track: #283241; --weak: #fcd58a;
  --weak-soft: #33260d; --none: #ffb0b0; --none-soft: #431a1d; --good: #86e0a6; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 54rem;
  margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, ul, dl { margin: .5rem 0; }
ul { padding-left: 1.2rem; }
.quiet { color: var(--quiet); font-size: .9rem; }
.glance { display: flex; flex-wrap: wrap; gap: 1px; background: var(--line); border: 1px solid var(--line); }
.glance div { background: var(--ground); padding: .6rem .8rem; flex: 1 1 12rem; }
dt { color: var(--quiet); font-size: .9rem; }
dd { margin: 0 0 .5rem; }
.date { white-space: nowrap; }
.glance dd { margin: 0; font-weight: 600; }
code { font: .9em ui-monospace, monospace; }
.mark { padding: .05rem .4rem; border-radius: .2rem; font-size: .9rem; white-space: nowrap; }
.mark.weak, .callout.weak { background: var(--weak-soft); color: var(--weak); }
.mark.none, .callout.none { background: var(--none-soft); color: var(--none); }
.callout { background: var(--soft); padding: .8rem 1rem; border-left: 4px solid currentColor; }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line);
  min-width: 6em; }
th { color: var(--quiet); font-weight: 600; }
td:first-child { font-weight: 600; min-width: 11em; }
figure { margin: 1rem 0; }
svg.odds { width: 100%; max-width: 30rem; height: auto; font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .head { font-weight: 600; }
svg .track { fill: var(--track); } svg .before { fill: var(--before); } svg .one { fill: var(--one); }
svg .all { fill: var(--all); }
.checks { list-style: none; padding: 0; }
.checks li { padding: .15rem 0 .15rem 1.6rem; text-indent: -1.6rem; }
.checks span { display: inline-block; width: 1.6rem; text-indent: 0; font-size: 1.1rem; }
.checks .yes span { color: var(--good); } .checks .no span { color: var(--none); }
.line { border-bottom: 1px solid var(--quiet); padding-bottom: 2.2rem; color: var(--quiet); }
.sign { display: grid; grid-template-columns: 14rem 2fr 1fr 2fr; gap: 1rem; align-items: end; margin-top: 1.2rem;
  break-inside: avoid; }
.sign span { border-bottom: 1px solid var(--quiet); padding-bottom: 1.8rem; color: var(--quiet); font-size: .85rem; }
@media screen and (max-width: 40rem) {
  .sign { grid-template-columns: 1fr; gap: .4rem; }
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  td, td:first-child { border: 0; padding: .1rem 0; min-width: 0; }
  td::before { content: attr(data-head) ": "; color: var(--quiet); font-weight: 400; }
}
@page { size: A4; margin: 18mm 16mm 18mm; @bottom-left { content: "release RELEASE…"; font: 8pt sans-serif; }
  @bottom-right { content: "page " counter(page) " of " counter(pages); font: 8pt sans-serif; } }
@media print {
  :root { color-scheme: light; --ground: #fff; --ink: #000; --quiet: #444; --line: #bbb; --soft: #f3f4f6;
    --before: #9ca3af; --one: #2563eb; --all: #b45309; --track: #e5e7eb; --weak: #78350f; --weak-soft: #fef3c7;
    --none: #991b1b; --none-soft: #fee2e2; --good: #166534; }
  html { font-size: 10pt; }
  body { font-size: 1rem; max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3, p:has(+ blockquote) { break-after: avoid; }
  h2 { margin-top: 1.4rem; }
  tr, li, figure, blockquote, .callout, .glance { break-inside: avoid; }
  section:last-child { break-inside: avoid; }
  tbody tr:first-child { break-after: avoid; }
  tbody tr:last-child { break-before: avoid; }
  thead { display: table-header-group; }
  svg.odds { max-width: 92mm; }
}
"""
