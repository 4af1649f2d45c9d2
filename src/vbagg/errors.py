"""The few error and warning types, and their common wording."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class NotFittedError(ValueError, AttributeError):
    """A fitted model was needed."""


class NoUncertaintyError(AttributeError):
    """Uncertainty was asked of a model that has none."""


class ClusterError(RuntimeError):
    """A cluster is gone, has no workers, or cannot do the work."""


class BrowserError(RuntimeError):
    """A browser was needed, and there is none, or it does not do what it should."""


class ConvergenceWarning(UserWarning):
    """A fit stopped before it converged; `model.status_` says what to do."""


class DataWarning(UserWarning):
    """The data are usable but unusual."""


def unknown_name(what: str, got: object, known: Iterable[str]) -> ValueError:
    """Error for a name that is not among the known ones."""
    return ValueError(f"`{what}` must be one of {', '.join(map(repr, known))}; got {got!r}.")


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """Second half of a sentence about an unknown name: the nearest known one, or all of them."""
    names = [str(name) for name in known]
    close = get_close_matches(got, names, 1) or get_close_matches(got.lower(), names, 1)
    if close:
        return f"; did you mean `{close[0]}`?"
    return f"; known: {', '.join(names)}." if names else "; there is none at all."
