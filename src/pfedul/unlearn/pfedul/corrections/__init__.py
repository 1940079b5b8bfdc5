"""The corrections of chosen layers: one file each, one line each in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.unlearn.pfedul.corrections.base import Correction

CORRECTIONS: Registry[Correction] = Registry(
    "correction",
    {
        "exclude": "pfedul.unlearn.pfedul.corrections.exclude:EXCLUDE",
        "paper": "pfedul.unlearn.pfedul.corrections.paper:PAPER",
        "trust-region": "pfedul.unlearn.pfedul.corrections.trust_region:TRUST_REGION",
        "reset": "pfedul.unlearn.pfedul.corrections.reset:RESET",
    },
)
