"""What the two methods of distillation can be told."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.models.base import require_choice, require_positive
from pfedul.unlearn.limits import require_above_zero, require_not_negative


@dataclass(frozen=True)
class DistilOptions:
    """Budgets, weights and switches.

    `iterations` batches of `batch` drawn inputs, `student_steps` on each of them, `branches`
    remaining clients at a time; `mode=federated` spreads them over `rounds`.
    `clip` bounds the norm of the student's gradients. The loss is
    `forget` * L_F + `beta` * L_K + `gamma` * L_att, L_K at the temperature `tau`.
    """

    iterations: int = 80
    student_steps: int = 3
    batch: int = 64
    branches: int = 3
    lr: float = 0.001
    clip: float = 1.0
    generator_lr: float = 0.001
    forget: float = 1.0
    beta: float = 5.0
    gamma: float = 2.0
    tau: float = 2.0
    lf_sign: str = "pull"
    student_init: str = "warm"
    gen_obj: str = "lf"
    mode: str = "server"
    rounds: int = 4

    def __post_init__(self) -> None:
        for name in ("iterations", "student_steps", "branches", "rounds"):
            require_positive(name, getattr(self, name))
        if self.batch < 2:  # the generator normalises over the batch
            raise ValueError(f"batch must be 2 or more, not {self.batch}")
        require_above_zero(lr=self.lr, clip=self.clip)
        require_above_zero(generator_lr=self.generator_lr, tau=self.tau)
        require_not_negative(forget=self.forget, beta=self.beta, gamma=self.gamma)
        require_choice("lf_sign", self.lf_sign, "pull", "push")
        require_choice("student_init", self.student_init, "warm", "random")
        require_choice("gen_obj", self.gen_obj, "lf", "lf+kd")
        require_choice("mode", self.mode, "server", "federated")

    @property
    def sign(self) -> float:
        """Of L_F in what the student minimises."""
        return 1.0 if self.lf_sign == "pull" else -1.0

    @property
    def iterations_per_round(self) -> int:
        """Of each client when it works in rounds; together at least `iterations`."""
        return -(-self.iterations // self.rounds)
