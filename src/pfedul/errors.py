"""The exceptions that stand for what a user can put right."""

from __future__ import annotations

from typing import ClassVar


class PfedulError(Exception):
    """Something the user can put right: one sentence that says what is wrong and what to do next.

    The command line prints it on stderr and exits with `exit_code`; it never shows a traceback for
    it.
    """

    exit_code: ClassVar[int] = 1


class TransientError(PfedulError):
    """A failure that may pass (a full disk, workers that died, clients that are away).

    A request stays pending, and resumes when it is made again.
    """


class MethodFailed(PfedulError):
    """A method came to no usable result; the run is as it was."""


class NothingChanged(PfedulError):
    """A removal would leave the shared tensors as they are; the request stays pending."""


class RequirementNotMet(PfedulError):
    """What was asked for is done, and its result is not what `--require` wants."""

    exit_code: ClassVar[int] = 3


class OutOfMemory(TransientError):
    """There was not enough memory."""

    def __init__(self) -> None:
        super().__init__(
            "There was not enough memory; nothing that was committed is lost: end other programs, "
            "or work with fewer processes (--workers)."
        )
