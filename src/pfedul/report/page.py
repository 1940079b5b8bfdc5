"""From the material of a run to a page of plain parts; nothing here knows of a format."""

from __future__ import annotations

from pfedul.base.text import cleaned, joined
from pfedul.report.blocks import Page
from pfedul.report.material import Json, View
from pfedul.report.sections.attacks import attacks_section, controls_section
from pfedul.report.sections.clients import clients_section
from pfedul.report.sections.cost import cost_section
from pfedul.report.sections.glossary import glossary_section
from pfedul.report.sections.layers import layers_section
from pfedul.report.sections.request import repeat_section, request_section
from pfedul.report.sections.verdict import banner


def report_content(material: Json) -> Page:
    """The page for {run, settings, request, evidence, clients, applies}; parts may be None.

    The same material gives the same page. What is missing is said in words.
    """
    view = View.of(cleaned(material))
    sections = (
        request_section(view),
        layers_section(view),
        clients_section(view),
        attacks_section(view),
        controls_section(view),
        cost_section(view),
        repeat_section(view),
        glossary_section(),
    )
    return Page(_title(view), _subtitle(view), banner(view), sections)


def _title(view: View) -> str:
    if not view.targets:
        return "Report of a federation"
    if view.request is None:
        return f"Would {joined(view.targets)} be forgotten?"
    verb = "Was" if len(view.targets) == 1 else "Were"
    return f"{verb} {joined(view.targets)} forgotten?"


def _subtitle(view: View) -> str:
    run = view.run
    parts = [run.get(key) for key in ("run", "personalization", "data", "model")]
    rounds = f"{run['rounds']} rounds" if "rounds" in run else None
    return " · ".join(str(part) for part in [*parts, rounds] if part)
