"""Errors of the package. Each message is one sentence: what was wrong and what to do.

All of them are `ValueError`s, so that callers who know nothing of this package catch them too. The command line
prints the sentence and leaves with exit code 2.
"""

from importlib.util import find_spec


class OmnidcError(ValueError):
    """Base of all errors that are the input's fault, not the program's."""

    def __str__(self) -> str:
        """The sentence on one line; names from files cannot bring control characters to a terminal."""
        return "".join(letter if letter.isprintable() else " " for letter in super().__str__())


class InputError(OmnidcError):
    """An image, depth map, point list or number that cannot be used as given."""


class FileError(OmnidcError):
    """A file or folder that is missing, damaged, of another format, or cannot be written. Names the path."""


class CheckpointError(OmnidcError):
    """A file of weights that is damaged, incomplete or of another model."""


class ConfigError(OmnidcError):
    """An option or configuration value that does not exist or contradicts another."""


class MissingExtraError(OmnidcError):
    """An optional dependency that this job needs is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f'{purpose} needs the package {package}: install it with  pip install "omnidc[{extra}]".')


def require_torch(purpose: str, extra: str = "torch") -> None:
    """Say what to install where torch is missing; a base install runs exported models without it."""
    if find_spec("torch") is None:
        raise MissingExtraError("torch", extra, purpose)


class ConvergenceError(OmnidcError):
    """The integrator did not reach its tolerance."""
