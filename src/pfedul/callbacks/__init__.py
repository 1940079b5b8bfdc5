"""Callbacks for `Federation.train`, `forget`, `rehearse`, `audit` and `compare`.

Trackers import their software when they are made; the names of the extras are theirs.
"""

from pfedul.callbacks.bar import Bar as Bar
from pfedul.callbacks.mlflow import MLflow as MLflow
from pfedul.callbacks.tensorboard import TensorBoard as TensorBoard
from pfedul.callbacks.tracker import Tracker as Tracker
from pfedul.callbacks.wandb import WandB as WandB
from pfedul.run.callbacks import Callback as Callback
from pfedul.run.callbacks import Progress as Progress
