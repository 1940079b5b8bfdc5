"""What an unlearning method is: its function, its client functions, and what users must know.

A method is given the run at the request (`Context`) and returns the shared tensors without
the targets. Erasing what belonged to them, recalibration, the commit and the outcome are the
same for every method and happen around it (removal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors
from pfedul.protocol import ClientWork
from pfedul.unlearn.context import Context
from pfedul.unlearn.pfedul.result import Plan


@dataclass(frozen=True, eq=False)
class Result:
    """What a method returns: the new shared tensors, and more where it has more.

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
class About:
    """The texts of `pfedul methods` and of the docs.

    `variants` are further forms that a comparison of all methods shows, as `pfedul compare`
    writes them. `control`: it is there to compare with, not to be used.
    """

    paper: str
    who: str = "the server alone"
    rounds: str = "0"
    memory: str = "nothing"
    guarantee: str = "none"
    avoids: str = ""
    control: bool = False
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Needs:
    """What a method requires of a run.

    `records`: the records that training must have kept. `target`: the targets must take part,
    unless `spares_target` says that these options do without them. `local`: the method reads
    samples or personal tensors of clients, so they must be on this machine. `trained`: the run
    must have had a round. `classes`: it works on classes alone, so on no other task. `layout`:
    training settings that the method requires; a comparison trains a run with them.
    """

    records: tuple[str, ...] = ()
    target: bool = False
    spares_target: Callable[[Any], bool] = lambda _options: False
    local: bool = False
    trained: bool = True
    classes: bool = False
    layout: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Does:
    """What a method does beyond returning shared tensors.

    `recalibrates`: recalibration is a part of it. `starts_over`: it trains from scratch, so all
    records of the old training are erased. `plans`: it makes a plan of the layers from options
    of `forget` that other methods do not take. `budgeted`: it stops at a CPU time, which its
    option `cpu_seconds` may give. `clusters`: it works on runs with clusters. `replaces`: nothing
    that the targets sent is left in the shared tensors that it returns.
    """

    recalibrates: bool = False
    starts_over: bool = False
    plans: bool = False
    budgeted: bool = False
    clusters: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class Method:
    """An entry of the registry.

    `client` holds the functions that clients run for it, by the name that `Context.ask` uses.
    `check` raises, before anything is done, if the method cannot do what is asked; it must be
    cheap.
    """

    name: str
    summary: str
    unlearn: Callable[[Context, Any], Result]
    about: About
    options: type[Any] = NoOptions
    needs: Needs = Needs()
    does: Does = Does()
    client: Mapping[str, ClientWork] = field(default_factory=dict)
    check: Callable[[Context, Any], None] | None = None
