"""Who asks for a removal, on what ground, and by when it is due."""

from __future__ import annotations

import calendar
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from pfedul.base.options import option
from pfedul.errors import PfedulError

LONGEST = 500


@dataclass(frozen=True)
class Asked:
    """What is kept with a request, signed, for as long as the run exists."""

    by: str | None = option(None, "Who asks for it: a role or a case number rather than a name.")
    ground: str | None = option(None, "On what ground, such as 'GDPR Art. 17(1)(b)'.")
    due: str | None = option(
        None, "By when it is due, as YYYY-MM-DD; else a month from now (GDPR Art. 12(3))."
    )

    def __post_init__(self) -> None:
        for value in (self.by, self.ground):
            if value is not None and (len(value) > LONGEST or not value.isprintable()):
                raise PfedulError(
                    f"Give one line of at most {LONGEST} letters, not {value[:50]!r}."
                )
        if self.due is not None:
            _check_date(self.due)

    def as_json(self) -> dict[str, Any]:
        """What was given, and when it is due."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {"due": month_after(datetime.now(UTC).date()).isoformat(), **given}


def _check_date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise PfedulError(f"'{text}' is not a date; write it as YYYY-MM-DD.") from None


def month_after(day: date) -> date:
    """The same day of the next month, or its last day.

    >>> str(month_after(date(2026, 1, 31))), str(month_after(date(2026, 12, 5)))
    ('2026-02-28', '2027-01-05')
    """
    year, month = (day.year + 1, 1) if day.month == 12 else (day.year, day.month + 1)
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))
