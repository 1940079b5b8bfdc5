"""One-shot exclusion: the last round's mean again, without what the targets sent.

A control, after MUFC (Pan et al., ICLR 2023, which is about K-means), and the model that PGA
starts from. Only the last round is undone: what the targets did earlier is in everybody's upload.
"""

from __future__ import annotations

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.records.uploads import last_upload
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context


def unlearn(ctx: Context, _options: NoOptions) -> Result:
    mean = StreamingMean(dict(ctx.shared))
    for client, upload in _of_last_round(ctx, ctx.remaining).items():
        mean.add(upload, ctx.samples(client))
    idle = set(ctx.targets) - _of_last_round(ctx, ctx.targets).keys()
    notes = [f"{name}: did not take part in the last round" for name in sorted(idle)]
    return Result(mean.result(), notes=tuple(notes))


def check(ctx: Context, _options: NoOptions) -> None:
    ctx.require_record("uploads")
    if not _of_last_round(ctx, ctx.remaining):
        raise PfedulError(
            "Nobody but the targets took part in the last round, so no mean is left without "
            "them; train on, or choose another method."
        )


def _of_last_round(ctx: Context, clients: tuple[str, ...]) -> dict[str, Tensors]:
    """What each of these clients sent in the last round, if it took part in it."""
    uploads = {client: ctx.record(last_upload, client) for client in clients}
    return {c: upload[1] for c, upload in uploads.items() if upload and upload[0] == ctx.rounds}


EXCLUSION = Method(
    name="exclusion",
    summary="the mean of the last round, without what the target sent",
    unlearn=unlearn,
    about=About(
        paper="a control; after Pan et al., ICLR 2023 (MUFC), whose method is for K-means",
        memory="one copy of the shared tensors for each client",
        avoids="MUFC as published says nothing of deep models; this reading of it is ours",
        control=True,
    ),
    needs=Needs(records=("uploads",)),
    check=check,
)
