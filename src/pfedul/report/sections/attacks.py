"""What attackers can still tell, compared with retraining, and the controls of the audit."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.text import MISSING, joined, number, with_interval
from pfedul.report import plots
from pfedul.report.blocks import Block, Gallery, Heading, Picture, Section, Table, Text
from pfedul.report.material import NO_EVIDENCE, Json, Material
from pfedul.report.sections import curves, instant, measures
from pfedul.report.style import legend_of

_HOW = (
    "Each test lets an attacker guess which samples the target trained with, through one surface. "
    "The candidate is compared with oracles, which never saw the target: forgotten means that the "
    "attacker does no better than against them."
)
_AFTER = (
    "This evidence was made after the fact. The model before the removal is gone, so nothing "
    "can be said about how much was forgotten, only about what is left."
)


def attacks_section(material: Material) -> Section:
    """From the judgement at a glance down to single figures."""
    if not material.evidence:
        return Section("attacks", _TITLE, (Text(NO_EVIDENCE, "warning"),))
    if instant.is_instant(material.evidence):
        return Section.of("attacks", _TITLE, _without_oracles(material))
    after = [Text(_AFTER, "note")] if material.evidence.get("kind") == "audit" else []
    blocks: list[Block] = [
        Text(_HOW),
        *after,
        _surfaces(material),
        *(Heading("Tests"), *_tests(material)),
        *instant.own_blocks(material),
        *(Heading("ROC curves"), curves.roc_curves(material)),
        *(Heading("Members and non-members"), curves.distributions(material)),
        *(Heading("Relearning"), *curves.relearn_blocks(material)),
        *(Heading("Client by client"), measures.single_clients(material)),
        *(Heading("Distance to retraining"), *measures.distance_blocks(material)),
        *(Heading("Backdoor"), *measures.backdoor_blocks(material)),
        *(Heading("Further measures"), measures.measures_table(material)),
    ]
    return Section.of("attacks", _TITLE, blocks)


_TITLE = "What attackers can still tell"


def _without_oracles(material: Material) -> list[Block]:
    tests = material.tests()
    if not tests:
        return [Text(material.evidence["verdict"]["sentence"], "warning")]
    table = instant.gone_table(tests)
    return [Text(instant.HOW), _surfaces(material), Text(instant.GONE), table, _each(tests)]


def _surfaces(material: Material) -> Table:
    rows = [
        {
            "surface": surface["name"],
            "what it is": surface.get("title") or MISSING,
            "state": "tested" if surface["available"] else f"not tested: {surface.get('reason')}",
            "in words": surface.get("summary") or "",
        }
        for surface in material.evidence.get("surfaces") or ()
    ]
    return Table.of("Where an attacker can look", rows, words=4)


def _tests(material: Material) -> list[Block]:
    """Differences at a glance, then each test, then the numbers."""
    tests = material.tests()
    if not tests:
        return [Text("No attack could be made, so no test speaks for or against.", "warning")]
    return [_differences(tests), _judgement_table(tests), _each(tests), _figures_table(tests)]


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
        "The judgement at a glance: zero is what retraining gives. The shaded spread is how far "
        "one retrained model is from the others, by chance alone. Where the untouched model is far "
        "off and the candidate is not, something was forgotten."
    )
    return Gallery(caption, (figure,), (*legend_of(plots.drawn_series(rows)), "band"))


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
        measures.finding_words(test["finding"]),
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
            "finding": measures.finding_words(test["finding"]),
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
    "The level instant has none: what a model gives that never saw the target is known, and the "
    "tests are exact. How often its verdicts are wrong was simulated (docs/audit.md)."
)
_HOLDS = {True: "✓ yes", False: "✗ no", None: "? undecided"}


def controls_section(material: Material) -> Section:
    """Each control with what it must do and whether it did."""
    controls = material.evidence.get("controls") or ()
    if instant.is_instant(material.evidence):
        known = Text(_NO_CONTROLS)
        return Section("controls", "Controls of the audit", (known,))
    if not controls:
        silent = "No controls were run, so the audit itself is unchecked."
        return Section("controls", "Controls of the audit", (Text(silent, "warning"),))
    rows = [
        {
            "control": control["name"],
            "must": control["must"],
            "was judged": control.get("finding") or "not judged",
            "holds?": _HOLDS[control.get("holds")],
            "in words": control.get("summary") or "",
        }
        for control in controls
    ]
    table = Table.of("Controls", rows, words=5)
    return Section("controls", "Controls of the audit", (Text(_WHY), *_broken(controls), table))


def _broken(controls: Sequence[Json]) -> list[Block]:
    names = joined((c["name"] for c in controls if c["holds"] is False), nothing="")
    warning = f"These controls do not hold: {names}. Trust no verdict."
    return [Text(warning, "warning")] if names else []
