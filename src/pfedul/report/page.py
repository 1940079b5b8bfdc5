"""The report as a page, independent of the file format."""

from __future__ import annotations

from pfedul.base.text import cleaned, joined
from pfedul.report.blocks import Page
from pfedul.report.material import Json, Material
from pfedul.report.sections.attacks import attacks_section, controls_section
from pfedul.report.sections.clients import clients_section
from pfedul.report.sections.cost import cost_section
from pfedul.report.sections.glossary import glossary_section
from pfedul.report.sections.layers import layers_section
from pfedul.report.sections.request import repeat_section, request_section
from pfedul.report.sections.verdict import banner


def report_content(data: Json) -> Page:
    """The page for the data of `read_material`; what is missing is said in words.

    The same data give the same page.
    """
    material = Material.of(cleaned(data))
    sections = (
        attacks_section(material),
        controls_section(material),
        clients_section(material),
        cost_section(material),
        layers_section(material),
        request_section(material),
        repeat_section(material),
        glossary_section(),
    )
    return Page(_title(material), _subtitle(material), banner(material), sections)


def _title(material: Material) -> str:
    if not material.targets:
        return "Report of a federation"
    if not material.request:
        return f"Would {joined(material.targets)} be forgotten?"
    verb = "Was" if len(material.targets) == 1 else "Were"
    return f"{verb} {joined(material.targets)} forgotten?"


def _subtitle(material: Material) -> str:
    run = material.run
    parts = [run.get(key) for key in ("run", "personalization", "data", "model")]
    rounds = f"{run['rounds']} rounds" if "rounds" in run else None
    return " · ".join(str(part) for part in [*parts, rounds] if part)
