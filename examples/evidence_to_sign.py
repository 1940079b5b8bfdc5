"""A data-protection officer must sign that a client was forgotten, or refuse to.

For each removal the operator hands over two files: a report to read, and a signed certificate. The
officer checks the certificate with the operator's public key, reads what is claimed and what is
not, and signs only if the evidence says that nothing of the client can be seen.

    python examples/evidence_to_sign.py

In a shell `pfedul certificate` and `pfedul verify` do what `certify` and `verify_certificate` do
here.
"""

import json
import shutil
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from pfedul import Federation
from pfedul.base.keys import operator_key, public_hex
from pfedul.proof.certificate import certify
from pfedul.proof.verify_certificate import verify_certificate

RUN, FILES = Path("runs/evidence-to-sign"), Path("runs/files-to-sign")
ENOUGH = ("forgotten", "nothing measurable to forget")


def running_federation() -> Federation:
    """Five clients with handwritten digits; the first has three tenths of the samples."""
    federation = Federation.create(
        RUN,
        data="digits:test=0.6",
        partition="imbalanced:share=0.3,alpha=0.5",
        clients=5,
        model="mlp:hidden=128,depth=3,norm=batch",
        personalization="fedper",
        rounds=20,
        local_epochs=2,
        lr=0.02,
    )
    federation.train()
    return federation


def honoured(federation: Federation, client: str, case: str) -> Path:
    """The operator's part: forget the client, and write the two files."""
    outcome = federation.forget(client, by=case, ground="GDPR Art. 17(1)(b)")
    folder = FILES / case.replace(" ", "-")
    folder.mkdir(parents=True)
    federation.report(request=outcome.request, output=folder / "report.html")
    _, certificate = certify(RUN, outcome.request)
    (folder / "certificate.json").write_text(certificate)
    return folder


def decide(folder: Path, key: str) -> None:
    """The officer's part: only the files and the operator's public key are needed."""
    certificate = folder / "certificate.json"
    wrong = [
        check.sentence for check in verify_certificate(certificate, key) if check.holds is False
    ]
    if wrong:
        print("do not sign:", *wrong)
        return
    statement = content_of(certificate)
    request, verdict = statement["request"], statement["evidence"][-1]["verdict"]
    print("asked for by", request["asked"]["by"], "to forget", *request["targets"])
    print("claimed     ", verdict["sentence"])
    for limit in (*verdict["limits"], *statement["limits"]):
        print("not claimed ", limit)
    for need in verdict["needed"]:
        print("needed      ", need)
    print("so          ", "sign" if verdict["verdict"] in ENOUGH else "do not sign", folder)


def content_of(certificate: Path) -> dict[str, Any]:
    """What is signed: the predicate of an in-toto statement, in a DSSE envelope."""
    payload = json.loads(certificate.read_text())["payload"]
    statement: dict[str, Any] = json.loads(b64decode(payload))["predicate"]
    return statement


def forged(folder: Path) -> Path:
    """What somebody might do who needs a better verdict, and has no key."""
    copy = Path(shutil.copytree(folder, f"{folder}-forged"))
    envelope = json.loads((copy / "certificate.json").read_text())
    better = b64decode(envelope["payload"]).replace(b"not enough evidence", b"forgotten")
    envelope["payload"] = b64encode(better).decode()
    (copy / "certificate.json").write_text(json.dumps(envelope))
    return copy


def main() -> None:
    for folder in (RUN, FILES):
        shutil.rmtree(folder, ignore_errors=True)
    key = public_hex(operator_key())  # given to the officer on another way than the files
    with running_federation() as federation:
        first = honoured(federation, "client-00", "case 17")
        second = honoured(federation, "client-03", "case 18")
    for folder in (first, second, forged(second)):
        print(f"\n{folder}")
        decide(folder, key)


if __name__ == "__main__":
    main()
