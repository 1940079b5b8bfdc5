"""ZeroFU: a student forgets on generated inputs, without anybody's samples.

IJCAI 2025, pp. 6588-6596, after an independent re-implementation. A generator draws inputs on
which the student's features and the target's differ most, and the student pulls its own toward
them (L_F) while it keeps the outputs (L_K) and attention maps (L_att) of the model as it was.

Personalised: the student is the shared part alone, starts from the shared tensors as they are and
is distilled through the personal parts of all remaining clients in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.distillation.loop import DistilOptions
from pfedul.unlearn.methods.distillation.run import DISTIL, check, distilled, label_gates, notes


@dataclass(frozen=True)
class ZeroFUOptions(DistilOptions):
    """As `DistilOptions`; `condition`: labeldist, or none for features as they are."""

    condition: str = option(
        "labeldist", "What makes features a client's own.", choices=("labeldist", "none")
    )


def unlearn(ctx: Context, options: ZeroFUOptions) -> Result:
    gates = label_gates(ctx) if options.condition == "labeldist" else {}
    return Result(distilled(ctx, options, gates), notes=notes(ctx, options, gates))


ZEROFU = Method(
    name="zerofu",
    summary="distil the shared part on generated inputs, its features toward the target's "
    "(lf_sign=push: away from them)",
    unlearn=unlearn,
    about=About(
        paper="ZeroFU, IJCAI 2025, pp. 6588-6596; after an independent re-implementation",
        who=(
            "the server, with the targets' labels at hand (not with condition=none); "
            "mode=federated: all remaining clients, who are sent the targets' personal parts and "
            "everybody's gates"
        ),
        rounds="0; 4 (rounds) with mode=federated",
        memory=(
            "nothing; reads how often each client, the target too, has each label, unless "
            "condition=none"
        ),
        avoids="a student drawn at random serves one client only: no other personal part fits it",
    ),
    options=ZeroFUOptions,
    needs=Needs(
        target=True,
        spares_target=lambda options: options.condition == "none",
        local=True,
        classes=True,
    ),
    client=DISTIL,
    check=lambda ctx, options: check(ctx, linear_head=options.condition == "labeldist"),
)
