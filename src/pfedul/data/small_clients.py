"""What happens to clients that hold too little to be trained or tested."""

from __future__ import annotations

from enum import StrEnum

from pfedul.data.partitions.base import ClientIndices, Holdings
from pfedul.errors import PfedulError

_SHOWN = 5


class SmallClients(StrEnum):
    """Refuse the partition, or go on without the small clients."""

    ERROR = "error"
    DROP = "drop"


def policy(text: str) -> SmallClients:
    """The policy that `text` names."""
    if text not in {choice.value for choice in SmallClients}:
        raise PfedulError(f"Small clients can be treated by 'error' or 'drop', not by '{text}'.")
    return SmallClients(text)


def without_small(
    holdings: Holdings, min_samples: int, choice: SmallClients
) -> tuple[Holdings, tuple[str, ...]]:
    """The clients that are large enough, and a warning for each that was left out."""
    small = {name: held for name, held in holdings.items() if _is_small(held, min_samples)}
    if small and (choice is SmallClients.ERROR or len(small) == len(holdings)):
        raise PfedulError(_refusal(small, len(holdings), min_samples))
    warnings = tuple(
        f"Client {_describe(name, held)} was left out as too small." for name, held in small.items()
    )
    return {name: held for name, held in holdings.items() if name not in small}, warnings


def _is_small(held: ClientIndices, min_samples: int) -> bool:
    return len(held.train) < min_samples or len(held.test) == 0


def _refusal(small: Holdings, clients: int, min_samples: int) -> str:
    shown = ", ".join(_describe(name, held) for name, held in list(small.items())[:_SHOWN])
    more = f" and {len(small) - _SHOWN} more" if len(small) > _SHOWN else ""
    drop = "" if len(small) == clients else "--small-clients drop, "
    return (
        f"{len(small)} of {clients} clients hold fewer than {min_samples} training samples or no "
        f"test sample: {shown}{more}; try {drop}fewer clients or another seed."
    )


def _describe(name: str, held: ClientIndices) -> str:
    return f"{name} ({len(held.train)} training, {len(held.test)} test)"
