"""The options that the two methods of distillation share."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option


@dataclass(frozen=True)
class DistilOptions:
    """Budgets, weights and switches.

    The loss is `forget` * L_F + `beta` * L_K + `gamma` * L_att.
    """

    iterations: int = option(80, "Batches of generated inputs.", at_least=1)
    student_steps: int = option(3, "Steps of the student on each batch.", at_least=1)
    # The generator normalises over the batch.
    batch: int = option(64, "Generated inputs in a batch.", at_least=2)
    branches: int = option(3, "Remaining clients at a time.", at_least=1)
    lr: float = option(0.001, "Rate of the student.", above=0)
    clip: float = option(1.0, "Bound on the norm of the student's gradients.", above=0)
    generator_lr: float = option(0.001, "Rate of the generator.", above=0)
    forget: float = option(1.0, "Weight of L_F, the distance of features.", at_least=0)
    beta: float = option(5.0, "Weight of L_K, the distance of outputs.", at_least=0)
    gamma: float = option(2.0, "Weight of L_att, the distance of attention maps.", at_least=0)
    tau: float = option(2.0, "Temperature of L_K.", above=0)
    lf_sign: str = option(
        "pull", "Features toward the target's, or away from them.", choices=("pull", "push")
    )
    student_init: str = option(
        "warm",
        "Start from the shared tensors as they are, or at random.",
        choices=("warm", "random"),
    )
    gen_obj: str = option("lf", "What the generator looks for.", choices=("lf", "lf+kd"))
    mode: str = option(
        "server",
        "Distil at the server, or at the remaining clients.",
        choices=("server", "federated"),
    )
    rounds: int = option(4, "Rounds of mode=federated.", at_least=1)

    @property
    def sign(self) -> float:
        """The sign of L_F in what the student minimises."""
        return 1.0 if self.lf_sign == "pull" else -1.0

    @property
    def iterations_per_round(self) -> int:
        """Iterations of a client in a round; together at least `iterations`."""
        return -(-self.iterations // self.rounds)
