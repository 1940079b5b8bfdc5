"""Data: loading it, dealing it to clients, or taking the user's own clients."""

from pfedul.data.backdoor import BACKDOOR_FORM as BACKDOOR_FORM
from pfedul.data.backdoor import Backdoor as Backdoor
from pfedul.data.backdoor import parse_backdoor as parse_backdoor
from pfedul.data.backdoor import trigger_value as trigger_value
from pfedul.data.backdoor import triggered as triggered
from pfedul.data.backdoor import with_backdoor as with_backdoor
from pfedul.data.datasets import DATASETS as DATASETS
from pfedul.data.datasets.base import Dataset as Dataset
from pfedul.data.datasets.base import Owners as Owners
from pfedul.data.load import load_clients as load_clients
from pfedul.data.own import own_clients as own_clients
from pfedul.data.partitions import PARTITIONS as PARTITIONS
from pfedul.data.samples import ClientData as ClientData
from pfedul.data.samples import DatasetSamples as DatasetSamples
from pfedul.data.samples import FederatedData as FederatedData
from pfedul.data.samples import Samples as Samples
from pfedul.data.samples import TensorSamples as TensorSamples
from pfedul.data.samples import as_samples as as_samples
from pfedul.data.samples import fingerprint as fingerprint
