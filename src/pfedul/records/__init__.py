"""Records: what training leaves behind so that a client can be forgotten."""

from pfedul.records.exact import exact_fisher as exact_fisher
from pfedul.records.exact import rank_agreement as rank_agreement
from pfedul.records.fisher import FisherRecord as FisherRecord
from pfedul.records.fisher import FisherSource as FisherSource
from pfedul.records.fisher import fisher_noise as fisher_noise
from pfedul.records.fisher import updated_fisher as updated_fisher
