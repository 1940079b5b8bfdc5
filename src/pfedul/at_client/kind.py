"""What unlearning methods ask of a client: pure functions of a job, plain values and tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pfedul.base.tensors import Tensors
from pfedul.personalization.base import Job

EXTRA = "extra/"
"""Before the names of tensors that travel with the shared ones and are none of the model's."""


@dataclass(frozen=True)
class Done:
    """What a client sends back. Its personal part never is in it, and never changes."""

    tensors: Tensors
    metrics: Mapping[str, float] = field(default_factory=dict)


ClientWork = Callable[[Job, Mapping[str, Any], Tensors], Done]
"""(the job, what it is told, further tensors that came along) -> what it sends back."""


def with_extra(shared: Tensors, extra: Tensors) -> Tensors:
    """Shared tensors, and further ones beside them, as one message.

    >>> sorted(with_extra({"w": 1}, {"w": 2}))
    ['extra/w', 'w']
    """
    return {**shared, **{EXTRA + name: tensor for name, tensor in extra.items()}}


def split_extra(tensors: Tensors) -> tuple[Tensors, Tensors]:
    """The inverse of `with_extra`."""
    own = {name: t for name, t in tensors.items() if not name.startswith(EXTRA)}
    extra = {name.removeprefix(EXTRA): t for name, t in tensors.items() if name not in own}
    return own, extra
