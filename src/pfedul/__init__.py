"""pfedul: a personalised federation that can forget a client, and prove it.

from pfedul import Federation

with Federation.create("runs/first", data="digits", personalization="fedrep") as federation:
    federation.train(20)
    print(federation.evaluate().mean)
"""

from typing import TYPE_CHECKING

from pfedul.base.lazy import lazy
from pfedul.version import __version__ as __version__

if TYPE_CHECKING:
    from pfedul.errors import PfedulError as PfedulError
    from pfedul.evaluation import ClientScore as ClientScore
    from pfedul.evaluation import Evaluation as Evaluation
    from pfedul.federation import Federation as Federation
    from pfedul.run.callbacks import Callback as Callback
    from pfedul.run.callbacks import Progress as Progress
    from pfedul.settings import Settings as Settings
    from pfedul.split import Layer as Layer
    from pfedul.split import Split as Split

_MODULES = {
    "PfedulError": "pfedul.errors",
    "ClientScore": "pfedul.evaluation",
    "Evaluation": "pfedul.evaluation",
    "Federation": "pfedul.federation",
    "Callback": "pfedul.run.callbacks",
    "Progress": "pfedul.run.callbacks",
    "Settings": "pfedul.settings",
    "Layer": "pfedul.split",
    "Split": "pfedul.split",
}
__all__ = ["__version__", *_MODULES]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _MODULES)
