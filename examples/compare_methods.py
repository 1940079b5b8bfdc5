"""A researcher compares methods of unlearning: an own one, on an own model and own data.

Every method starts from the same checkpoint, and is judged against the same retrained models. The
last lines say where the page, the table and the picture for a paper are.

    python examples/compare_methods.py
"""

import shutil
from pathlib import Path

from hospitals.data import clients
from hospitals.model import network
from hospitals.rewind import REWIND
from pfedul import Callback, Federation, Progress
from pfedul.unlearn.methods import METHODS

RUN = Path("runs/compare-methods")
WAYS = ("pfedul", "pfedul:correction=paper", "rewind:share=0.8")


class Losses(Callback):
    """A callback is told of each round; an experiment tracker is one, too (docs/python.md)."""

    def on_round(self, progress: Progress) -> None:
        print(f"round {progress.round:>2}  loss {progress.loss:.3f}")


def main() -> None:
    METHODS.register(REWIND)
    shutil.rmtree(RUN, ignore_errors=True)
    with Federation.create(
        RUN,
        data=clients(),
        model=network,
        personalization="fedper",
        rounds=12,
        lr=0.02,
        random_split=True,
    ) as federation:
        federation.train(callbacks=[Losses()])
        comparison = federation.compare("north", methods=WAYS, oracles=2)
    document = comparison.document
    for row in (*document["references"], *document["methods"]):
        excess, kept = row["mean_excess"], row["remaining_accuracy"]
        print(f"{row['label']:<24}  excess AUC {excess:+.3f}  accuracy of the others {kept:.3f}")
    for kind, file in comparison.files.items():
        print(f"{kind:<8}  {file}")


if __name__ == "__main__":
    main()
