"""FedAvg: one model for all, nothing personal. The baseline of the other personalisations."""

from pfedul.base.registry import NoOptions
from pfedul.personalization.base import Personalization
from pfedul.personalization.local import fit_everything
from pfedul.personalization.recalibration import keep_nothing
from pfedul.split import split_all_shared

FEDAVG = Personalization(
    name="fedavg",
    summary="one model for all clients",
    shared="everything",
    personal="nothing",
    local_training="all tensors",
    recalibration="nothing to refit",
    paper="McMahan et al., AISTATS 2017",
    options=NoOptions,
    split=split_all_shared,
    fit=fit_everything,
    recalibrate=keep_nothing,
    shares_head=True,
)
