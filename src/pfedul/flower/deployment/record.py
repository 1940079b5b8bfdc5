"""What `processes.json` holds: who was started, where it listens, and how to find it again."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace

from pfedul.flower.deployment.files import PRIVATE, write
from pfedul.flower.deployment.layout import SUPERLINK, Layout
from pfedul.flower.deployment.processes import Process, is_alive


@dataclass(frozen=True)
class Record:
    """A deployment's processes, those that have ended included: their ports are used again.

    `token` marks the processes of this deployment and all that they start.
    """

    token: str
    host: str
    port: int
    data_root: str | None
    processes: tuple[Process, ...] = ()

    def find(self, name: str) -> Process | None:
        return next((item for item in self.processes if item.name == name), None)

    def runs(self, name: str) -> bool:
        process = self.find(name)
        return process is not None and is_alive(process)

    def running(self) -> list[Process]:
        return [item for item in self.processes if is_alive(item)]

    def mark(self, name: str) -> str:
        """What children of that process bear; the slash keeps `a` from being taken for `ab`."""
        return f"{self.token}/{name}/"

    @property
    def family_mark(self) -> str:
        """What all processes of the deployment bear."""
        return f"{self.token}/"

    def with_process(self, process: Process) -> Record:
        others = [item for item in self.processes if item.name != process.name]
        in_order = sorted([*others, process], key=lambda item: (item.name != SUPERLINK, item.name))
        return replace(self, processes=tuple(in_order))


def new_token() -> str:
    return secrets.token_hex(8)


def read_record(layout: Layout) -> Record | None:
    """None where nothing was ever started."""
    if not layout.record.is_file():
        return None
    words = json.loads(layout.record.read_bytes())
    processes = words.pop("processes")
    return Record(**words, processes=tuple(_process(item) for item in processes))


def _process(words: dict[str, object]) -> Process:
    command = words.pop("command")
    assert isinstance(command, list)
    return Process(**words, command=tuple(command))  # type: ignore[arg-type]


def write_record(layout: Layout, record: Record) -> None:
    text = json.dumps(asdict(record), indent=2) + "\n"
    write(layout.record, text.encode(), PRIVATE)
