"""The few error and warning types, and their common wording."""

from __future__ import annotations

from collections.abc import Iterable


class NotFittedError(ValueError, AttributeError):
    """A fitted model was needed."""


class NoUncertaintyError(AttributeError):
    """Uncertainty was asked of a model that has none."""


class ConvergenceWarning(UserWarning):
    """A fit stopped before it converged; `model.status_` says what to do."""


class DataWarning(UserWarning):
    """The data are usable but unusual."""


def unknown_name(what: str, got: object, known: Iterable[str]) -> ValueError:
    """Error for a name that is not among the known ones."""
    return ValueError(f"`{what}` must be one of {', '.join(map(repr, known))}; got {got!r}.")
