"""The commands `certificate`, `verify` and `key`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pfedul.base.keys import (
    chosen_key_file,
    fingerprint,
    make_key,
    public_hex,
    public_pem,
    read_public_key,
)
from pfedul.cli.parts import Output, command, require_option, unmet
from pfedul.errors import PfedulError
from pfedul.store.paths import certificate_file, inside
from pfedul.terminal.console import line

if TYPE_CHECKING:
    from pfedul.proof.check import Check


@command("pfedul certificate runs/digits --request 1")
@click.option("--request", type=int, help="Which removal; the newest if not given.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write it; else a file in RUN/certificates.",
)
@require_option(" Nothing is written then.")
def certificate(run: Path, request: int | None, output: Path | None, require: str | None) -> Output:
    """Write a signed statement of a removal, to give to whoever asked for it.

    An in-toto statement in a DSSE envelope: what was asked for and done, the evidence with its
    limits, and the head of the chain of evidence. 'pfedul verify' checks it, and so do others'
    tools. docs/evidence.md says what it shows.
    """
    from pfedul.proof.certificate import certify, verdict_of
    from pfedul.store.folder import locked, own_errors

    removal, text = certify(run, request)
    if error := unmet(verdict_of(text), require):
        raise error
    path = output or inside(run, certificate_file(removal.number))
    with own_errors(path), locked(run) if output is None else nullcontext():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    words = f"Wrote {path}; whoever gets it can call 'pfedul verify {path}'."
    return Output({"certificate": str(path), "request": removal.number}, lambda: line(words))


@command("pfedul verify runs/digits --public-key operator.pub", run=False)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    help="The operator's public key, as the operator gave it to you ('pfedul key').",
)
@click.option(
    "--certificate",
    "certificates",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A certificate of this run that was given away; may be given again.",
)
def verify(path: Path, public_key: Path | None, certificates: tuple[Path, ...]) -> Output:
    """Check a run folder, or a certificate: signatures, chain of evidence, hashes of all files.

    It only reads, and says in one sentence each what it could check and what not. It exits
    with 1 if anything is not as it was signed.
    """
    from pfedul.proof.verify_certificate import verify_certificate
    from pfedul.proof.verify_run import verify_run

    trusted = None if public_key is None else read_public_key(public_key)
    alone = path.is_file()
    checks = verify_certificate(path, trusted) if alone else verify_run(path, trusted, certificates)
    wrong = sum(check.holds is False for check in checks)
    error = PfedulError(f"{path} is not as it was signed: {wrong} of {len(checks)} checks failed.")
    return Output(
        {"path": str(path), "holds": not wrong, "checks": [asdict(check) for check in checks]},
        lambda: _print_checks(checks),
        error if wrong else None,
    )


def _print_checks(checks: list[Check]) -> None:
    words = {True: "ok", False: "WRONG", None: "open"}
    for check in checks:
        line(f"{words[check.holds]:<7} {check.sentence}")


@command("pfedul key", run=False)
@click.option(
    "--public",
    type=click.Path(path_type=Path),
    help="Write the public key to FILE, for those who verify.",
)
@click.option(
    "--accept",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on from RUN as it is, though your key did not sign it last: a backup that you "
    "restored, or a run of another key or of an older version. An entry of its chain says so.",
)
@click.option(
    "--hand-over",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="RUN FILE",
    help="Let the owner of the public key in FILE sign in RUN from now on.",
)
def key(public: Path | None, accept: Path | None, hand_over: tuple[Path, Path] | None) -> Output:
    """Show the key that signs what runs say of themselves; it is made at the first call.

    'pfedul --key FILE key' makes another one. Whoever has the private key can sign in your name:
    keep it outside of run folders, and a copy in a safe place. What it signed last in each run is
    remembered next to it (docs/evidence.md).
    """
    from pfedul.store import takeover
    from pfedul.store.folder import own_errors

    file = chosen_key_file()
    own = public_hex(make_key(file))
    result = {"key": str(file), "fingerprint": fingerprint(own), "public_key": public_pem(own)}
    if public is not None:
        with own_errors(public):
            public.write_text(result["public_key"], encoding="utf-8")
    if accept is not None:
        needed = takeover.accept(accept)
        result["accepted"] = f"{accept} {_TAKEN_OVER if needed else _AS_SIGNED}"
    if hand_over is not None:
        run, file = hand_over
        takeover.hand_over(run, read_public_key(file))
        result["handed_over"] = f"{run}: the owner of the key in {file} may sign from now on."
    return Output(result, lambda: _print_key(result))


_TAKEN_OVER = "is taken over as it is; an entry of its chain says so."
_AS_SIGNED = "is as your key signed it last; there was nothing to accept."


def _print_key(result: dict[str, str]) -> None:
    line(f"private key   {result['key']}")
    line(f"fingerprint   {result['fingerprint']} (SHA-256)")
    line(result["public_key"].strip())
    for name in ("accepted", "handed_over"):
        if name in result:
            line(f"{name.replace('_', ' ')}: {result[name]}")
