"""FedPer: a shared body under a personal head, trained together."""

from pfedul.personalization.job import Personalization
from pfedul.personalization.local import fit_everything
from pfedul.registry import NoOptions
from pfedul.split import split_head

FEDPER = Personalization(
    name="fedper",
    summary="shared body, personal head, trained together",
    shared="all but the head",
    personal="the head",
    local_training="body and head together",
    paper="Arivazhagan et al., arXiv 1912.00818",
    options=NoOptions,
    split=split_head,
    fit=fit_everything,
    needs_head=True,
)
