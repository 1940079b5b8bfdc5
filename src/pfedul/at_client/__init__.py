"""What unlearning methods ask of clients, by name. One file each; `Task.how["what"]` names it."""

from pfedul.at_client.adapter import AdapterTraining as AdapterTraining
from pfedul.at_client.adapter import train_adapter
from pfedul.at_client.distil import distil
from pfedul.at_client.projected_ascent import ProjectedAscent as ProjectedAscent
from pfedul.at_client.projected_ascent import ascend_in_ball
from pfedul.at_client.prompt import PromptFitting as PromptFitting
from pfedul.at_client.prompt import fit_prompt
from pfedul.protocol import ClientWork
from pfedul.protocol import Done as Done
from pfedul.protocol import split_extra as split_extra
from pfedul.protocol import with_extra as with_extra
from pfedul.unlearn.training import SharedTraining as SharedTraining
from pfedul.unlearn.training import train_shared

WORK: dict[str, ClientWork] = {
    "train-shared": train_shared,
    "projected-ascent": ascend_in_ball,
    "train-adapter": train_adapter,
    "distil": distil,
    "fit-prompt": fit_prompt,
}
