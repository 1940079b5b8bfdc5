"""The one exception that stands for a user's mistake."""


class PfedulError(Exception):
    """Something the user can put right: one sentence that says what is wrong and what to do next.

    The command line prints it on stderr and exits non-zero; it never shows a traceback for it.
    """
