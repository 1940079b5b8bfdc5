"""Unlearning: which layers a client is in, and how they are corrected.

On plain dictionaries of tensors, without a run folder:

>>> import torch
>>> from pfedul.records import FisherRecord
>>> from pfedul.split import Layer
>>> from pfedul.unlearn import plan_removal
>>> fisher = FisherRecord([Layer("body", ("w",), 1), Layer("neck", ("v",), 1)])
>>> fisher.add("hospital-7", {"w": torch.tensor([1.0]), "v": torch.tensor([3.0])})
>>> fisher.add("hospital-8", {"w": torch.tensor([1.0]), "v": torch.tensor([1.0])})
>>> shared, initial = ({name: torch.full((1,), x) for name in "wv"} for x in (2.0, 1.0))
>>> plan = plan_removal(fisher, shared, initial, target="hospital-7", lr=0.1)
>>> plan.selected
('neck',)
>>> plan.apply(shared)
{'w': tensor([2.]), 'v': tensor([2.0200])}
"""

from typing import TYPE_CHECKING

from pfedul.base.lazy import lazy

if TYPE_CHECKING:
    from pfedul.unlearn.pfedul.plan import plan_removal as plan_removal
    from pfedul.unlearn.pfedul.result import LayerPlan as LayerPlan
    from pfedul.unlearn.pfedul.result import Plan as Plan
    from pfedul.unlearn.pfedul.result import PlanOptions as PlanOptions
else:
    __getattr__ = lazy(
        __name__,
        {
            "plan_removal": "pfedul.unlearn.pfedul.plan",
            **dict.fromkeys(("LayerPlan", "Plan", "PlanOptions"), "pfedul.unlearn.pfedul.result"),
        },
    )
