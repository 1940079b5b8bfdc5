"""Figures of report pages, each drawn once: matplotlib takes a fifth of a second for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pfedul.report import svg
from pfedul.report.blocks import Picture


@contextmanager
def drawn_once() -> Iterator[None]:
    """Pages share meanwhile the drawings of figures that have the same size and data."""
    draw, drawings = svg._drawn, {}

    def drawn(figure: Picture) -> str:
        key = repr((figure.size, figure.draw))
        if key not in drawings:
            drawings[key] = draw(figure)
        return drawings[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "_drawn", drawn)
        yield
