"""What an unlearning method is: one function, and what a user must know before choosing it.

A method is given the run at the request (`Work`) and returns the shared tensors
without the targets. Erasing what belonged to them, letting the others recalibrate
if that is asked for, committing and writing it all down is the same for every
method and is done around it (removal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors
from pfedul.unlearn.pfedul.result import Plan

if TYPE_CHECKING:
    from pfedul.unlearn.context import Work


@dataclass(frozen=True, eq=False)
class Result:
    """What a method made of the shared tensors.

    `personal` and `initial` are for methods that start over: new personal tensors of remaining
    clients, and the shared tensors that the new training began with. `plan` is what pFedUL
    shows of its layers.
    """

    shared: Tensors
    personal: Mapping[str, Tensors] = field(default_factory=dict)
    plan: Plan | None = None
    notes: tuple[str, ...] = ()
    initial: Tensors | None = None


@dataclass(frozen=True)
class Method:
    """An entry of the registry; the texts make the table of `pfedul methods` and of the docs.

    `needs`: names of records that training must have kept. `target_works`: the targets
    must take part, unless `spares_target` says of the options that they need not.
    `starts_over`: its result is that of another training, and all records of the old one go.
    `local_only`: it reads samples or personal tensors of clients, so
    that they must be on this machine. `recalibrates`: recalibration is a part of it.
    `clustered`: it knows what to do on a run with clusters. `layout` are settings of training
    without which it cannot work: a comparison trains a run with them for it.
    `plans`: it makes a plan of the layers, which options of `forget` shape; other methods are
    not given those. `untrained`: it can be asked for before the first round.
    `budgeted`: it stops at a CPU time that its option `cpu_seconds` may give.
    `variants` are further forms that a comparison of all methods shows, as `pfedul compare`
    writes them. `check` refuses in one sentence, before anything is done, what it cannot do.
    """

    name: str
    summary: str
    paper: str
    unlearn: Callable[[Work, Any], Result]
    options: type[Any] = NoOptions
    needs: tuple[str, ...] = ()
    memory: str = "nothing"
    target_works: bool = False
    spares_target: Callable[[Any], bool] = lambda _options: False
    who: str = "the server alone"
    rounds: str = "0"
    guarantee: str = "none"
    avoids: str = ""
    recalibrates: bool = False
    starts_over: bool = False
    local_only: bool = False
    control: bool = False
    budgeted: bool = False
    variants: tuple[str, ...] = ()
    clustered: bool = False
    plans: bool = False
    untrained: bool = False
    layout: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Work, Any], None] | None = None
