"""Things with labels, and a user's numbers for each of them in the order of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.inputs import as_numbers, some_bags


class Labelled:
    """Bags, wherever they are, by their labels."""

    if TYPE_CHECKING:

        @property
        def labels(self) -> NDArray[np.object_]:
            """Label of each bag (b,)."""

    def __len__(self) -> int:
        return self.labels.size

    def align(
        self, y: Any, name: str = "y", *, gaps: bool = False, infinite: bool = False, remedy: str | None = None
    ) -> NDArray[np.float64]:
        """One finite number per bag, in the order of `labels` (b,); NaN where there is none, if `gaps` are allowed.

        A pandas Series is matched by label; anything else is in the order of `labels` already. Bags that share a
        label share its value.
        """
        if hasattr(y, "iloc") and y.ndim == 1 and y.index.tolist() != self.labels.tolist():
            y = y.iloc[self._match(y.index, name)]
        values = as_numbers(y, name, "bag", len(self), lambda a: f"bag {self.labels[a]!r}")
        wrong = ~(np.isfinite(values) | (gaps & np.isnan(values)) | (infinite & np.isposinf(values)))
        if wrong.any():
            raise ValueError(
                f"`{name}` must be finite{' or missing' if gaps else ''}; got {values[wrong][0]} for"
                f" {some_bags(self.labels[wrong])}. {remedy or 'Leave these bags out, or give their numbers.'}"
            )
        return values.copy()

    def _match(self, index: Any, name: str) -> list[int]:
        """Position in a pandas index of the label of each bag."""
        repeated = index[index.duplicated()].unique().tolist()
        if repeated:
            raise ValueError(
                f"`{name}` must hold one value per bag; it holds several for {some_bags(repeated)}. "
                "Add them up, or keep one."
            )
        position = {label: i for i, label in enumerate(index.tolist())}
        known = dict.fromkeys(self.labels)
        missing = [label for label in known if label not in position]
        unknown = [label for label in position if label not in known]
        if missing or unknown:
            lacks = f"; it lacks {some_bags(missing)}" if missing else ""
            extra = f"; it holds the unknown {some_bags(unknown)}" if unknown else ""
            raise ValueError(
                f"`{name}` is a Series, so its index must be the labels of the bags{lacks}{extra}. "
                f"Index it by label, or pass `{name}.to_numpy()` in the order of `bags.labels`."
            )
        return [position[label] for label in self.labels]
