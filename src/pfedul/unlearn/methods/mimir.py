"""Mimir: as ZeroFU, with prompts in the place of label distributions.

IEEE Transactions on Mobile Computing 2025, doi 10.1109/TMC.2025.3570018, by the same
team; no public code, after an independent re-implementation. It differs from ZeroFU in
two points: what makes features a client's own is a prompt, and the generator also looks
for inputs on which outputs differ (L_F + beta L_K). The paper's text names T_F in L_K where
it describes a transfer from T_R; it is T_R here.

Mimir trains prompts, and the module that makes them, with the federation. Runs here have
none: each client, the target too, fits one factor for each feature to its own samples,
everything else frozen, when the request comes. So this Mimir is not free of data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from pfedul.at_client import PromptFitting
from pfedul.base.tensors import Tensors
from pfedul.models.base import require_choice, require_positive
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.distillation.options import DistilOptions
from pfedul.unlearn.distillation.run import check as check_run
from pfedul.unlearn.distillation.run import distilled, head_name, notes
from pfedul.unlearn.limits import require_above_zero


@dataclass(frozen=True)
class MimirOptions(DistilOptions):
    """As `DistilOptions`; `condition`: prompt, or none; prompts are fitted for `prompt_epochs`.

    `prompt_lr`: that of training unless given.
    """

    gen_obj: str = "lf+kd"
    condition: str = "prompt"
    prompt_epochs: int = 2
    prompt_lr: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("condition", self.condition, "prompt", "none")
        require_positive("prompt_epochs", self.prompt_epochs)
        require_above_zero(prompt_lr=self.prompt_lr)


def unlearn(work: Work, options: MimirOptions) -> Result:
    prompts = fitted_prompts(work, options) if options.condition == "prompt" else {}
    return Result(distilled(work, options, prompts), notes=notes(work, options, prompts))


def fitted_prompts(work: Work, options: MimirOptions) -> dict[str, Tensor]:
    """Client -> its prompt: one round; whoever gives no answer has none.

    Each fits it on the model that it is later used with: T_F of a target, T_R of the others.
    """
    head = head_name(work, work.federation.bench.build_model())
    how = PromptFitting(head, options.prompt_epochs, options.prompt_lr)

    def step(_number: int, _state: Tensors) -> Tensors:
        leaving = work.ask("fit-prompt", work.targets, work.shared, replace(how, whole=True))
        prompts = {reply.client: reply.shared["prompt"].clone() for reply in leaving}
        staying = work.ask("fit-prompt", work.remaining, work.shared, how, same_round=True)
        return prompts | {reply.client: reply.shared["prompt"].clone() for reply in staying}

    return work.steps("prompts", 1, {}, step)


def check(work: Work, _options: MimirOptions) -> None:
    check_run(work, linear_head=False)


MIMIR = Method(
    name="mimir",
    summary="distil the shared part on generated inputs, with prompts fitted by every client",
    paper="Mimir, IEEE TMC 2025, doi 10.1109/TMC.2025.3570018; after a re-implementation",
    unlearn=unlearn,
    options=MimirOptions,
    target_works=True,
    spares_target=lambda options: options.condition == "none",
    who="every client once (prompts; nobody with condition=none), then the server; mode=federated: "
    "all remaining clients, who are sent the targets' personal parts and everybody's prompts",
    rounds="1 (prompts); and 4 (rounds) with mode=federated",
    avoids="a student drawn at random serves one client only: no other personal part fits it",
    local_only=True,
    check=check,
)
