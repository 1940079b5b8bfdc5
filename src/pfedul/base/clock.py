"""The time of what is written down."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This moment, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
