"""The attacks of the audit, weak to strong: one file each, one line each in the list.

Pure functions on arrays: logits [samples, classes], labels [samples], values of several
models [models, samples]. Every figure knows its range and direction (`Figure.metric`).
"""

from pfedul.audit.attacks.backdoor import BACKDOOR
from pfedul.audit.attacks.backdoor import backdoor_attack as backdoor_attack
from pfedul.audit.attacks.base import Attack as Attack
from pfedul.audit.attacks.base import Figure as Figure
from pfedul.audit.attacks.base import Figures as Figures
from pfedul.audit.attacks.distance import DISTANCE
from pfedul.audit.attacks.distance import distance_attack as distance_attack
from pfedul.audit.attacks.forgetting_quality import FORGETTING_QUALITY
from pfedul.audit.attacks.forgetting_quality import final_score as final_score
from pfedul.audit.attacks.forgetting_quality import forgetting_attack as forgetting_attack
from pfedul.audit.attacks.klom import KLOM_ATTACK
from pfedul.audit.attacks.klom import bins_for as bins_for
from pfedul.audit.attacks.klom import klom as klom
from pfedul.audit.attacks.klom import klom_attack as klom_attack
from pfedul.audit.attacks.logistic import LOGISTIC
from pfedul.audit.attacks.logistic import logistic_attack as logistic_attack
from pfedul.audit.attacks.logistic import logistic_scores as logistic_scores
from pfedul.audit.attacks.relearn import RELEARN
from pfedul.audit.attacks.relearn import relearn as relearn
from pfedul.audit.attacks.rmia import RMIA
from pfedul.audit.attacks.rmia import rmia_attack as rmia_attack
from pfedul.audit.attacks.rmia import rmia_scores as rmia_scores
from pfedul.audit.attacks.roc import auc as auc
from pfedul.audit.attacks.roc import auc_figure as auc_figure
from pfedul.audit.attacks.roc import roc as roc
from pfedul.audit.attacks.roc import tpr_at_fpr as tpr_at_fpr
from pfedul.audit.attacks.threshold import THRESHOLD
from pfedul.audit.attacks.threshold import threshold_attack as threshold_attack
from pfedul.audit.attacks.ulira import ULIRA
from pfedul.audit.attacks.ulira import ulira_attack as ulira_attack

ATTACKS: tuple[Attack, ...] = (
    THRESHOLD,
    LOGISTIC,
    BACKDOOR,
    DISTANCE,
    RMIA,
    ULIRA,
    KLOM_ATTACK,
    FORGETTING_QUALITY,
    RELEARN,
)
