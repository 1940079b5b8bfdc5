"""The unlearning methods, one file each: all that `pfedul forget --method` knows.

The list is in the order of tables. Adding a method is a file and a line here.
"""

from pfedul.base.registry import Registry
from pfedul.unlearn.methods.budgeted import BUDGETED_RETRAIN
from pfedul.unlearn.methods.exclusion import EXCLUSION
from pfedul.unlearn.methods.federaser import FEDERASER
from pfedul.unlearn.methods.fedosd import FEDOSD
from pfedul.unlearn.methods.fedrecovery import FEDRECOVERY
from pfedul.unlearn.methods.fine_tune import FINE_TUNE
from pfedul.unlearn.methods.fused import FUSED
from pfedul.unlearn.methods.ga_naive import GA_NAIVE
from pfedul.unlearn.methods.knot import KNOT
from pfedul.unlearn.methods.mimir import MIMIR
from pfedul.unlearn.methods.negation import NOT
from pfedul.unlearn.methods.none import NONE
from pfedul.unlearn.methods.one_more_round import ONE_MORE_ROUND
from pfedul.unlearn.methods.pga import PGA
from pfedul.unlearn.methods.retrain import RETRAIN
from pfedul.unlearn.methods.sifu import SIFU
from pfedul.unlearn.methods.zerofu import ZEROFU
from pfedul.unlearn.pfedul.method import PFEDUL

METHODS = Registry(
    "method",
    PFEDUL,
    RETRAIN,
    GA_NAIVE,
    FINE_TUNE,
    FEDERASER,
    PGA,
    KNOT,
    FEDRECOVERY,
    ZEROFU,
    MIMIR,
    FUSED,
    FEDOSD,
    NOT,
    SIFU,
    NONE,
    EXCLUSION,
    ONE_MORE_ROUND,
    BUDGETED_RETRAIN,
    group="pfedul.methods",
)
