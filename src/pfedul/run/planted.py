"""The setting that plants a backdoor names a client, so it goes when that client goes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pfedul.data.trigger import parse_backdoor
from pfedul.settings import Settings


def planted_among(settings: Settings, clients: Collection[str]) -> Settings:
    """The settings without the backdoor, if it is at none of these clients."""
    planted = settings.plant_backdoor
    if planted is None or parse_backdoor(planted).client in clients:
        return settings
    return replace(settings, plant_backdoor=None)
