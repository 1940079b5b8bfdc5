"""FedBN: everything shared but batch normalisation, found by module type.

Weight, bias, running statistics and the batch counter of every BatchNorm stay
with the client. A model without any is refused: FedBN would silently be FedAvg.
"""

from pfedul.base.registry import NoOptions
from pfedul.personalization.base import Personalization
from pfedul.personalization.local import fit_everything
from pfedul.personalization.recalibration import refit_norm
from pfedul.split import split_norm

FEDBN = Personalization(
    name="fedbn",
    summary="everything shared but batch normalisation",
    shared="all but batch normalisation",
    personal="batch normalisation: weight, bias and running statistics",
    local_training="all tensors",
    recalibration="statistics by one forward pass; weights and biases if asked for",
    paper="Li et al., ICLR 2021",
    options=NoOptions,
    split=split_norm,
    fit=fit_everything,
    recalibrate=refit_norm,
    shares_head=True,
)
