"""What attackers can still tell, compared with retraining, and the controls of the audit."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.text import counted, joined, number, with_interval
from pfedul.report import plots
from pfedul.report.blocks import Block, Fold, Gallery, Heading, Items, Picture, Section, Table, Text
from pfedul.report.looks import Cell, finding_cell
from pfedul.report.material import NO_EVIDENCE, Json, Material
from pfedul.report.sections import curves, instant, measures
from pfedul.report.sections.explained import attack_words, explained
from pfedul.report.style import legend_of

_HOW = (
    "Each test lets an attacker guess which samples the target trained with. The model after the "
    "removal (the candidate) is compared with models that were trained again without the target "
    "(oracles): forgotten means that the attacker does no better than against them."
)
_AFTER = (
    "This evidence was made after the fact. The model before the removal is gone, so nothing "
    "can be said about how much was forgotten, only about what is left."
)


def attacks_section(material: Material) -> Section:
    """From the judgement at a glance down to single figures, which are behind folds."""
    if not material.evidence:
        return Section("attacks", _TITLE, (Text(NO_EVIDENCE, "warning"),))
    tests, without = material.tests(), instant.is_instant(material.evidence)
    glance = _before_and_after if without else _differences
    silent = str((material.evidence.get("verdict") or {}).get("sentence", ""))
    blocks: list[Block] = [
        Text(instant.HOW if without else _HOW),
        *([Text(_AFTER, "note")] if material.evidence.get("kind") == "audit" else []),
        *_explained(material, tests),
        Heading("The tests at a glance"),
        *([glance(tests)] if tests else [Text(f"No attack could be made. {silent}", "warning")]),
        _reasons(material),
        *(_statistics(tests, without) if tests else []),
        *instant.own_blocks(material),
        Fold.of("ROC curves", curves.roc_curves(material)),
        Fold.of("Losses of members and non-members", curves.distributions(material)),
        Fold.of("Relearning", *curves.relearn_blocks(material)),
        Fold.of("Client by client", measures.single_clients(material)),
        Fold.of("Distance of the answers to retraining", *measures.distance_blocks(material)),
        Fold.of("Backdoor", *measures.backdoor_blocks(material)),
        Fold.of("Further measures", *_further(material)),
    ]
    return Section.of("attacks", _TITLE, blocks)


_TITLE = "What attackers can still tell"


def _explained(material: Material, tests: Sequence[Json]) -> list[Block]:
    surfaces = material.evidence.get("surfaces") or _named(tests)
    return explained(surfaces, [test["attack"] for test in tests])


def _named(tests: Sequence[Json]) -> list[Json]:
    """What a removal measured of itself does not list its surfaces."""
    return [{"name": name} for name in dict.fromkeys(test["surface"] for test in tests)]


def _reasons(material: Material) -> Fold:
    """The audit's own sentences, with all numbers; none if they are about other tensors."""
    verdict = {} if material.holds is False else material.evidence.get("verdict") or {}
    needed = tuple(f"What more would need: {words}" for words in verdict.get("needed") or ())
    reasons = (*(verdict.get("reasons") or ()), *needed)
    return Fold.of("What the verdict rests on", _said(verdict), Items(reasons))


def _said(verdict: Json) -> Block:
    sentence = str(verdict.get("sentence", ""))
    return Text(sentence) if sentence else Items(())


def _statistics(tests: list[Json], without: bool) -> list[Block]:
    if without:
        return [Fold.of("Test by test", Text(instant.GONE), instant.gone_table(tests))]
    tables = _judgement_table(tests), _figures_table(tests)
    return [Fold.of("Test by test", _each(tests), *tables)]


def _further(material: Material) -> list[Block]:
    table = measures.measures_table(material)
    known = [test["attack"] for test in material.tests()]
    rows = material.evidence.get("measures") or ()
    others = [row["attack"] for row in rows if row["attack"] not in known]
    return [attack_words(others), table] if table.rows else []


def _name(test: Json) -> str:
    return f"{test['surface']}, {test['attack']}"


def _differences(tests: list[Json]) -> Gallery:
    rows = [_difference_row(test) for test in tests]
    summary = "; ".join(
        f"{_name(test)}: {with_interval(test['difference'], sign=True)}, spread "
        f"{number(test.get('spread'))}, {test['finding']}"
        for test in tests
    )
    scale = plots.Scale("difference to the mean of the oracles", line=0.0)
    figure = plots.rows_figure("How far from retraining?", summary, rows, scale)
    caption = (
        "Zero is what retraining gives; further right is a leak. The shaded spread is how far one "
        "retrained model is from the others, by chance alone. Where the untouched model is far off "
        "and the candidate is not, something was forgotten."
    )
    return Gallery(caption, (figure,), (*legend_of(plots.drawn_series(rows)), "band"))


def _before_and_after(tests: list[Json]) -> Gallery:
    """Where 1/2 is what a model gives that never saw the target."""
    rows = [plots.PlotRow(_name(test), _in_time(test["figures"])) for test in tests]
    summary = "; ".join(
        f"{_name(test)}: {with_interval(test['figures'].get('untouched'))} before, "
        f"{with_interval(test['figures'].get('candidate'))} after, {test['finding']}"
        for test in tests
    )
    scale = plots.Scale("AUC of the attack", plots.common_ends(rows, (0.4, 0.7)), tests[0]["best"])
    figure = plots.rows_figure("Before and after the removal", summary, rows, scale)
    caption = (
        "On the dotted line the attacker can only guess, as on a model that never saw the target; "
        "further right is a leak. Lines are 95 % intervals."
    )
    return Gallery(caption, (figure,), legend_of(plots.drawn_series(rows)))


def _in_time(figures: Json) -> tuple[plots.Mark, ...]:
    names = {"before": figures.get("untouched"), "after": figures.get("candidate")}
    return plots.marks_of(names)


def _difference_row(test: Json) -> plots.PlotRow:
    marks = plots.marks_of(
        {"candidate": test["difference"], "untouched": test.get("untouched_difference")}
    )
    spread = test.get("spread")
    return plots.PlotRow(_name(test), marks, None if spread is None else (-spread, spread))


def _each(tests: list[Json]) -> Gallery:
    rows = {_name(test): plots.model_rows(test["figures"]) for test in tests}
    every = [row for part in rows.values() for row in part]
    ends = plots.common_ends(every, (0.4, 0.7))
    figures = tuple(_panel(test, rows[_name(test)], ends) for test in tests)
    caption = "Each test with 95 % intervals; the dotted line is where an attacker can only guess."
    return Gallery(caption, figures, legend_of(plots.drawn_series(every)))


def _panel(test: Json, rows: list[plots.PlotRow], ends: tuple[float, float]) -> Picture:
    scale = plots.Scale(f"{test['metric']} of the attack", ends, test.get("best"))
    return plots.rows_figure(
        _name(test),
        plots.in_words(test["figures"]),
        rows,
        scale,
        str(finding_cell(test["finding"])),
    )


def _figures_table(tests: list[Json]) -> Table:
    rows = [
        {"surface": test["surface"], "attack": test["attack"], "measure": test["metric"]}
        | plots.model_cells(test["figures"])
        for test in tests
    ]
    return Table.of("What each attack reached", rows, words=3)


def _judgement_table(tests: list[Json]) -> Table:
    rows = [
        {
            "surface": test["surface"],
            "attack": test["attack"],
            "finding": finding_cell(test["finding"]),
            "difference to oracles": with_interval(test["difference"], sign=True),
            "spread of oracles": number(test.get("spread")),
            "smallest visible leak": number(test.get("smallest_visible")),
            "less than untouched by": with_interval(test.get("reduction"), sign=True),
        }
        for test in tests
    ]
    return Table.of("What the verdict rests on", rows, words=3)


_WHY = (
    "An audit that calls everything forgotten is worth nothing. So each audit also judges cases "
    "whose answer is known: some must pass as forgotten, others must fail."
)
_NO_CONTROLS = (
    "This kind of evidence (level instant) needs none: what a model gives that never saw the "
    "target is known, and the tests are exact. How often its verdicts are wrong was simulated "
    "(docs/audit.md)."
)
_HOLDS = {
    True: Cell("✓ yes", "good"),
    False: Cell("✗ no", "bad"),
    None: Cell("? undecided", "unknown"),
}
_RIGHT = {"pass": "forgotten, or nothing to forget", "fail": "anything but forgotten"}


def controls_section(material: Material) -> Section:
    """How many controls were judged rightly, and each of them behind a fold."""
    controls = material.evidence.get("controls") or ()
    if instant.is_instant(material.evidence):
        blocks: list[Block] = [Text(_NO_CONTROLS)]
    elif not controls:
        blocks = [Text("No controls were run, so the audit itself is unchecked.", "warning")]
    else:
        fold = Fold.of("Control by control", _controls_table(controls))
        blocks = [Text(f"{_WHY} {_rightly(controls)}"), *_broken(controls), fold]
    return Section.of("controls", "Can the audit be trusted?", blocks)


def _rightly(controls: Sequence[Json]) -> str:
    right, open_ = (
        sum(control.get("holds") is answer for control in controls) for answer in (True, None)
    )
    undecided = f", {open_} could not be decided" if open_ else ""
    return f"{right} of {counted(len(controls), 'control')} were judged rightly{undecided}."


def _controls_table(controls: Sequence[Json]) -> Table:
    rows = [
        {
            "control": control["name"],
            "right answer": _RIGHT.get(control["must"], control["must"]),
            "the audit said": control.get("finding") or "not judged",
            "rightly?": _HOLDS[control.get("holds")],
            "in words": control.get("summary") or "",
        }
        for control in controls
    ]
    return Table.of("Controls", rows, words=5)


def _broken(controls: Sequence[Json]) -> list[Block]:
    names = joined((c["name"] for c in controls if c["holds"] is False), nothing="")
    warning = f"These controls do not hold: {names}. Trust no verdict."
    return [Text(warning, "warning")] if names else []
