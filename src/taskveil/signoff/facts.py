"""The content of a dossier as plain data. The page and the JSON file say the same, because both are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskveil import __version__
from taskveil.client.families import CHOSEN
from taskveil.client.panels import Panel
from taskveil.client.promise import WEAK, chance, rounded_up
from taskveil.errors import BudgetError, DataError, printable
from taskveil.signoff.evidence import Signature
from taskveil.signoff.fields import fields_of
from taskveil.signoff.odds import budget, gains, level, meaning
from taskveil.signoff.texts import BY_HAND, CHOICE, COLLECTOR, NOT_PROTECTED, OFF, PEOPLE_SEE, ROLES, TRAINING
from taskveil.sweeps.expected import Expected, margin_text
from taskveil.sweeps.planning import plan_of
from taskveil.tasks import MeanTask, ModelTask, MultiTask, SurveyTask
from taskveil.veil import Family, Veil
from taskveil.veil.accounting import Cost, compose, reports_within
from taskveil.veil.central import usual_delta
from taskveil.veil.veil import as_epsilon


def content_of(
    release: Veil | Family,
    signature: Signature,
    audit: Mapping[str, Any] | None,
    stated: Mapping[str, str | None],
    *,
    rounds: int | None,
    people: int | None,
    cap: float | None,
    date: str,
) -> dict[str, Any]:
    """Everything that a dossier says.

    Args:
        release: what the dossier is about.
        signature: its state.
        audit: the result of an audit of this release.
        stated: the texts of the operator: title, purpose, stored, retention, utility; None where nothing is stated.
        rounds: how often a person is asked to report; None where the release plans it.
        people: how many people will report in a round or, where rounds are planned, take part.
        cap: the largest ε that a device spends.
        date: the day of the dossier.
    """
    promise = release.guarantee
    if promise.panel is not None and rounds is not None:
        raise DataError(f"this release plans its rounds, and a person reports {promise.panel}: leave rounds out.")
    total = total_of(release, rounds, cap)
    content = {
        "version": 1,
        "date": date,
        "taskveil": __version__,
        "stated": {name: None if text is None else " ".join(text.split()) for name, text in stated.items()},
        "release": {
            "id": release.release_id,
            "members": _members(release),
            "signature": {"state": signature.state, "key": signature.key, "words": signature.words},
        },
        "fields": fields_of(release),
        "report": _report(release),
        "promise": {
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "statement": release.statement if isinstance(release, Family) else promise.statement,
            "level": level(promise.epsilon),
            "words": meaning(promise.epsilon, "one report")
            + (f" This holds except with probability {chance(promise.delta)}." if promise.delta else "")
            + (
                f" People choose their ε: this is for {budget(promise.epsilon)}, the largest."
                if _chosen(release)
                else ""
            ),
            "assumptions": list(promise.assumptions),
        },
        "total": total,
        "crowd": _crowd(release, people),
        "gains": gains(promise.epsilon, total["epsilon"]),
        "people": {"sees": list(PEOPLE_SEE), "refuses": _refuses(release, total)},
        "collector": list(COLLECTOR),
        "not_protected": [dict(zip(("what", "why", "advice"), row, strict=True)) for row in _open_risks(release)],
        "utility": _utility(release, people),
        "audit": None if audit is None else dict(audit),
        "roles": list(ROLES),
    }
    cleaned: dict[str, Any] = _clean({**content, "checklist": _checklist(content)})
    return cleaned


def total_of(release: Veil | Family, rounds: int | None, cap: float | None) -> dict[str, Any]:
    """What the planned rounds cost together: ε (None if the rounds are not stated), and what that means."""
    one = release.guarantee
    panel = one.panel
    if panel is not None:
        rounds = panel.reports
    if cap is not None:
        cap = as_epsilon(cap)
        if cap < one.epsilon * (1 - 1e-12):
            raise BudgetError(f"a cap of {cap:g} allows no report of {budget(one.epsilon)}: devices would make none.")
    fits = _most(release, WEAK)
    # As the ledger counts: a cap is compared to twelve digits.
    allowed = None if cap is None else reports_within(Cost(epsilon=one.epsilon), epsilon=cap * (1 + 1e-12))
    advice = (
        f"To stay at ε = {WEAK:g} or less in total, ask a person for {fits:,} report{'s' if fits > 1 else ''} at most."
        if fits
        else f"One report already costs more than ε = {WEAK:g}."
    )
    if rounds is None:
        words = (
            "The number of rounds is not stated. Each further report costs its ε again: two reports cost twice as "
            f"much, and odds multiply. {advice}"
        )
        planned = cap
        if cap is not None:
            words = f"The number of rounds is not stated. Devices stop at {budget(cap)}. {meaning(cap, 'all reports')}"
    else:
        planned = _together(release, rounds)
        said = f"{rounds:,} report{'s' if rounds > 1 else ''}"
        words = f"{said} of {budget(one.epsilon)} cost {budget(planned)} together."
        if rounds == 1:
            words = f"One report costs {budget(planned)}."
        if panel is not None:
            words = f"{_plan(panel)} {words}"
        seen = {1: "the report", 2: "both reports"}.get(rounds, f"all {said}")
        if cap is not None and allowed is not None and allowed < rounds:
            words += (
                f" But devices stop at {budget(cap)}: they make {allowed:,} of the {rounds:,} reports, and none after "
                "that."
            )
            planned, seen = min(cap, _together(release, allowed) if one.delta else planned), "all reports"
        words += f" {meaning(planned, seen)}"
        if cap is not None and allowed is not None and allowed > rounds:
            words += f" The limit of {budget(cap)} allows more: devices that are asked again make {allowed:,} reports."
        words += _each_choice(release, rounds, cap)
        if level(planned) != "kept" and fits < rounds:
            words += f" {advice}"
    made = min((count for count in (rounds, allowed) if count is not None), default=1)
    if one.delta:
        words += f" This holds except with probability {chance(one.delta, made)}."
    return {
        "rounds": rounds,
        "panel": None if panel is None else {"rounds": len(panel.rounds), "reports": panel.reports, "days": panel.days},
        "cap": cap,
        "epsilon": planned,
        "delta": one.delta * made,
        "level": None if planned is None else level(planned),
        "needs": None if rounds is None else compose([Cost(epsilon=one.epsilon, times=rounds)]).epsilon,
        "within_weak": fits,
        "allowed": allowed,
        "words": words,
    }


def _together(release: Veil | Family, reports: int) -> float:
    """ε of so many reports of a person, at the sum of their δ."""
    one = release.guarantee
    pair = Cost(epsilon=one.epsilon, delta=one.delta, times=reports)
    whole = Cost.of(release, times=reports) if isinstance(release, Veil) else pair
    return compose([whole], delta=_delta(one.delta, reports)).epsilon


def _most(release: Veil | Family, epsilon: float) -> int:
    """How many reports of a person cost this ε together at most, counted as the total is; 0 if not even one. Their δ
    add up to 1% at most."""
    one = release.guarantee
    if not one.delta:
        return reports_within(Cost(epsilon=one.epsilon), epsilon=epsilon)
    low, high = 0, 1
    while high * one.delta <= 0.01 and _together(release, high) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle * one.delta <= 0.01 and _together(release, middle) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def _plan(panel: Panel) -> str:
    """In which rounds a person reports, in words."""
    first, last = panel.rounds[0], panel.rounds[-1]
    return (
        f"Each person reports {panel} (the first is {first}, the last {last}). The device draws them at random when it "
        "joins, before it looks at a record, and reports in no others. The total holds for every sequence of records, "
        "whatever changes in them and whenever it does."
    )


def _each_choice(release: Veil | Family, rounds: int, cap: float | None) -> str:
    """What the planned reports of a family cost: by choice where people choose; where devices draw, what is counted."""
    if not isinstance(release, Family):
        return ""
    if not _chosen(release):
        return " For each report the largest ε of the family is counted, whichever member was drawn."
    totals = {
        one: compose([Cost(epsilon=one, times=rounds)]).epsilon
        for one in sorted(veil.guarantee.epsilon for veil in release.members.values())
    }
    if cap is not None:
        totals = {one: min(cap, total) for one, total in totals.items()}
    listed = "; ".join(f"{budget(one)} each time, {budget(total)} in total" for one, total in totals.items())
    return f" People choose, and this is for the largest choice. By choice: {listed}."


def _delta(delta: float, reports: int) -> float:
    """The δ of so many reports together, rounded up; below 1."""
    return min(delta * reports * (1 + 1e-12), 1 - 1e-12)


def _chosen(release: Veil | Family) -> bool:
    """Whether people choose their ε."""
    return isinstance(release, Family) and release.kind == CHOSEN


def _members(release: Veil | Family) -> list[dict[str, Any]]:
    """The release alone, or the members of a family: what each is for, and what a device needs."""
    members = release.members if isinstance(release, Family) else {"": release}
    whole = sum(release.weights.values()) if isinstance(release, Family) else 1
    return [
        {
            "name": name,
            "id": veil.release_id,
            "task": _task(veil),
            "method": veil.method,
            "epsilon": veil.guarantee.epsilon,
            "delta": veil.guarantee.delta,
            "share": release.weights[name] / whole if isinstance(release, Family) and not _chosen(release) else None,
            "client_bytes": veil.size.client_bytes,
            "report_bytes": veil.size.report_bytes,
        }
        for name, veil in members.items()
    ]


def _task(veil: Veil) -> str:
    """What reports of a release are for."""
    if veil.method == "constant":
        return "nothing: its reports carry no information"
    if isinstance(veil.task, SurveyTask):
        return "statistics of all people (a survey)"
    if isinstance(veil.task, MeanTask):
        return "means over all people"
    if veil.task is None or isinstance(veil.task, ModelTask | MultiTask):
        names = () if veil.outputs is None else veil.outputs.names
        shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        return f"the answers of a model{f' ({shown})' if names else ''}"
    return "estimates for each person, from which weighted sums are computed"


def _report(release: Veil | Family) -> list[str]:
    """What leaves the device."""
    members = release.members if isinstance(release, Family) else {"": release}
    lines = []
    for name, veil in members.items():
        layout = veil.mechanism.layout
        codes = 1
        for low, high in zip(layout.low, layout.high, strict=True):
            codes *= high - low + 1
        size = f"{layout.length} byte{'s' if layout.length > 1 else ''}"
        choice = f"one of {codes:,} possible values" if codes < 10**9 else "one of more than a thousand million values"
        lines.append(f"{name}: {size}, {choice}." if name else f"A report is {size}: {choice}, drawn at random.")
    lines.append(
        "With it come the id of the release, a random number, the round if the app names it, and an access token if "
        "the collector asks for one. taskveil adds no name, no address and no time. The connection shows the address."
    )
    if _chosen(release):
        lines.append("People choose how private their reports are. The choice is visible.")
    elif isinstance(release, Family):
        lines.append("The device draws one of these kinds of report at random, before it looks at the record.")
    return lines


def _refuses(release: Veil | Family, total: Mapping[str, Any]) -> list[str]:
    """What a person can refuse."""
    cap, needed = total["cap"], total["needs"]
    limit = "The device makes no report that would cost more than its limit (the cap) in total."
    if cap is not None:
        limit += f" The limit is {budget(cap)}."
    elif total["panel"] is not None:
        limit += f" By default the limit is {budget(needed)}, that of all planned reports."
    elif needed is not None and total["rounds"] > 1:
        limit += f" For the planned rounds the app must set it to {budget(needed)}: by default it allows one report."
    if cap is None and needed is not None and needed > total["epsilon"] * (1 + 1e-9):
        limit += " Devices add up the ε of single reports, and that is more than what these cost together."
    found = [
        "To take part at all, and each single round. That a person did not report is visible.",
        limit,
        "A report that was sent cannot be taken back.",
    ]
    if isinstance(release, Family) and release.kind == CHOSEN:
        offered = ", ".join(rounded_up(veil.guarantee.epsilon) for veil in release.members.values())
        found.insert(0, f"A less private report: people choose among ε = {offered}.")
    return found


def _open_risks(release: Veil | Family) -> list[tuple[str, str, str]]:
    """What the promise does not cover."""
    veils = release.members.values() if isinstance(release, Family) else [release]
    rows = list(NOT_PROTECTED)
    if any(veil.task is None or isinstance(veil.task, ModelTask | MultiTask) for veil in veils):
        rows.insert(1, TRAINING)
    if _chosen(release):
        rows.insert(1, CHOICE)
    if release.guarantee.panel is not None:
        rows.insert(1, OFF)
    return rows


def _utility(release: Veil | Family, people: int | None) -> list[dict[str, Any]]:
    """What results to expect, for each member of a family."""
    found = [_expected(veil, count, name) for name, veil, count in _reporting(release, people)]
    if _chosen(release):
        return [{**one, "words": f"If all people choose this one: {one['words']}"} for one in found]
    return found


def _reporting(release: Veil | Family, people: int | None) -> list[tuple[str, Veil, int | None]]:
    """Each member, and how many reports of it so many people make; all of them, where people choose."""
    if isinstance(release, Veil):
        return [("", release, people)]
    whole = sum(release.weights.values())
    return [
        (name, veil, people if people is None or _chosen(release) else max(1, people * release.weights[name] // whole))
        for name, veil in release.members.items()
    ]


def _crowd(release: Veil | Family, people: int | None) -> list[dict[str, Any]]:
    """The central guarantee of a round, for each member; empty if the number of people is not stated."""
    found = []
    for name, veil, taking_part in _reporting(release, people):
        panel, count = veil.panel, taking_part
        if panel is not None and count is not None:
            count = max(1, count // panel.longest)
        if count is not None and not veil.guarantee.delta:
            one = veil.central(reports=count, delta=usual_delta(count))
            said = {"member": name, "reports": count, "epsilon": one.epsilon, "delta": one.delta}
            found.append({**said, "words": one.statement, "assumes": list(one.assumes)})
    return found


def _expected(veil: Veil, people: int | None, name: str) -> dict[str, Any]:
    """The expected margins of a survey or of means; the measured losses of a design for single people."""
    found: dict[str, Any] = {"member": name, "people": people, "margins": [], "summary": [], "losses": [], "words": ""}
    if veil.method == "constant":
        found["words"] = "Nothing can be learned: the design found no report that beats one answer for everybody."
    elif isinstance(veil.task, SurveyTask | MeanTask):
        if people is None:
            found["words"] = "The number of people who report is not stated, so no margin can be given."
        elif isinstance(veil.task, MeanTask) and veil.volunteers is None:
            found["words"] = "The release keeps no sums over its volunteers, so the margins of its means are not known."
        else:
            plan = plan_of(veil, people=people)
            rows = [row for row in plan.rows if row.label.shown]
            found["margins"] = [_margin(row.label.title, [row], people) for row in rows]
            together: dict[str, list[Expected]] = {}
            for row in rows:
                together.setdefault(_question(row), []).append(row)
            found["summary"] = [
                _margin(some[0].label.title if len(some) == 1 else f"{name}: {len(some)} shares", some, people)
                for name, some in together.items()
            ]
            panel = veil.panel
            taking = f"{people:,} people in a round"
            if panel is not None:
                some = people // panel.longest
                taking = f"{people:,} people who take part, of whom about {some:,} report in a round"
            found["words"] = (
                f"With {taking}, 95% of the estimates lie within the margin of the true value. {plan.basis}"
            )
            if isinstance(veil.task, SurveyTask):
                found["words"] += " The expected values are those of the volunteers, smoothed: they are rough."
    elif veil.considered:
        found["losses"] = [
            {"method": one.method, "encoder": one.encoder, "loss": one.held_out_loss, "chosen": place == 0}
            for place, one in enumerate(veil.considered)
        ]
        found["words"] = (
            "The loss is what a wrong answer costs; lower is better. It was measured on volunteers who had no part in "
            "the design that is judged."
        )
    else:
        found["words"] = (
            "The release holds no measured loss. Measure it on people who are not volunteers (veil.loss), and state it "
            "here."
        )
    return found


def _question(row: Expected) -> str:
    """What a statistic is about; all shares of one question have the same text."""
    match row.label.key:
        case ("shares" | "histograms", name, *_):
            return f"{name}"
        case ("by", by, _, name, _):
            return f"{name} by {by}"
        case ("pairs", first, second, *_):
            return f"{first} and {second}"
    return row.label.title


def _margin(name: str, rows: list[Expected], people: int) -> dict[str, Any]:
    """The expected values of some statistics, and the widest of their margins."""
    wide = max(rows, key=lambda row: row.margin(people) / row.width if row.width > 0 else 0.0)
    ends = [min(rows, key=lambda row: row.value), max(rows, key=lambda row: row.value)]
    values = dict.fromkeys(one.label.said(one.value, one.margin(people)) for one in ends)
    return {
        "name": name,
        "expected": " to ".join(values),
        "margin": margin_text(wide, people) if len(rows) == 1 else f"at most {margin_text(wide, people)}",
        "share_of_range": wide.margin(people) / wide.width if wide.width > 0 else 0.0,
    }


def _checklist(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each line with its state: true or false where the program knows it, None where a person must answer."""
    stated, total, audit = content["stated"], content["total"], content["audit"]
    known = [
        ("The purpose is stated.", stated["purpose"] is not None),
        ("The number of rounds is stated.", total["rounds"] is not None),
        (
            "All planned reports of a person together keep some protection.",
            None if total["level"] is None else total["level"] != "none",
        ),
        ("It is stated how long reports are kept.", stated["retention"] is not None),
        ("The signature was checked with the publisher's key.", content["release"]["signature"]["state"] == "verified"),
        ("An audit of this release was given.", False)
        if audit is None
        else ("An audit of this release found nothing that contradicts its promise.", audit["passed"]),
    ]
    if total["rounds"] is not None and total["allowed"] is not None:
        known.append(("The limit of the device (cap) allows all planned reports.", total["allowed"] >= total["rounds"]))
    found = [{"text": text, "holds": holds} for text, holds in known]
    if total["cap"] is not None:
        limit = f"The app sets the limit of the device (cap) to {budget(total['cap'])}."
    elif total["needs"] is not None:
        limit = f"The app sets the limit of the device (cap) to {budget(total['needs'])} at most."
    else:
        limit = "The app sets a limit of the device (cap)."
    return found + [{"text": text, "holds": None} for text in (*BY_HAND, limit)]


def _clean(value: Any) -> Any:
    """The same data with every text printable: names come from a release, which another program may have made."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value
