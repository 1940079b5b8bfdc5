"""A platform engineer has a removal request on the desk.

The hospital `north` leaves. First the removal is rehearsed on a sealed copy of the run, until a
setting is good enough. Only then is it done. Settings and their order are decided beforehand: who
goes on trying will find a lucky one. The program exits with 3, as `pfedul --require` does, if
no setting is good enough; nothing was changed then.

    python examples/removal_request.py
"""

import shutil
import sys
from pathlib import Path

from pfedul import Federation
from pfedul.keywords import ForgetKeywords

RUN = Path("runs/removal-request")
CLIENT = "north"
ATTEMPTS: tuple[ForgetKeywords, ...] = ({"correction": "paper"}, {}, {"repair": "ordinary"})
"""What changes least comes first; {} are the defaults."""


def running_federation() -> Federation:
    """In practice it is there already: Federation.open(RUN)."""
    shutil.rmtree(RUN, ignore_errors=True)
    federation = Federation.create(
        RUN,
        data="hospitals.data:clients",
        model="hospitals.model:network",
        personalization="fedper",
        rounds=12,
        lr=0.02,
        random_split=True,
    )
    federation.train()
    return federation


def good_enough(federation: Federation) -> ForgetKeywords | None:
    """The first setting with which the client is forgotten, in a rehearsal."""
    for options in ATTEMPTS:
        audit = federation.rehearse(CLIENT, **options)
        print(f"rehearsal with {options or 'the defaults'}: {audit.verdict}")
        print(f"  {audit.sentence}")
        if audit.verdict == "forgotten":
            return options
    return None


def main() -> int:
    with running_federation() as federation:
        print("before", federation.evaluate())
        options = good_enough(federation)
        if options is None:
            print("No setting is good enough; nothing was changed.", file=sys.stderr)
            return 3
        outcome = federation.forget(CLIENT, by="case 17", ground="GDPR Art. 17(1)(b)", **options)
        print("done  ", outcome)
        print("price ", f"the others keep {outcome.pps:.1%} of their accuracy")
        again = federation.forget(CLIENT, **options)
        print("again ", "nothing more to do" if again == outcome else again)
        federation.train(14)
        print("after ", federation.evaluate())
    return 0


if __name__ == "__main__":
    sys.exit(main())
