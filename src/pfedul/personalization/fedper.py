"""FedPer: a shared body under a personal head, trained together."""

from pfedul.base.registry import NoOptions
from pfedul.personalization.base import Personalization
from pfedul.personalization.local import fit_everything
from pfedul.personalization.recalibration import refit_head
from pfedul.split import split_head

FEDPER = Personalization(
    name="fedper",
    summary="shared body, personal head, trained together",
    shared="all but the head",
    personal="the head",
    local_training="body and head together",
    recalibration="the head, everything else frozen",
    paper="Arivazhagan et al., arXiv 1912.00818",
    options=NoOptions,
    split=split_head,
    fit=fit_everything,
    recalibrate=refit_head,
    needs_head=True,
)
