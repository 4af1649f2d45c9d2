"""Tables of nested validation made by hand."""

import numpy as np
import pandas as pd

from vbagg.validate.result import FoldResult
from vbagg.validate.scales import Nested


def scale(name, unions, told, observed, size=2, held=0.9, error=1.0, seed=0):
    """Bags of unions, of which a model tells differences of sd `told` where these are of sd `observed`."""
    rng = np.random.default_rng(seed)
    union = np.repeat(np.arange(unions), size)
    truth = rng.normal(0, 1, len(union))
    truth -= (np.bincount(union, truth) / size)[union]
    wrong = rng.normal(0, error, len(union))
    inside = {f"inside_{k}": (rng.random(len(union)) < held).astype(float) for k in (50, 80, 90, 95)}
    columns = {"bag": np.arange(len(union)), "union": union, "y": 1.0, "exposure": rng.uniform(1, 3, len(union))}
    columns |= {
        "value": observed * truth,
        "estimate": told * (truth + wrong),
        "noise": 0.01,
        "own_error": 0.4,
        **inside,
    }
    return FoldResult(name, ("vbagg",), "normal", unions, pd.DataFrame(columns))


def cells(claimed, bags=60):
    rng = np.random.default_rng(3)
    bag = np.repeat(np.arange(bags), 40)
    columns = {"row": np.arange(len(bag)), "bag": bag, "exposure": rng.uniform(1, 2, len(bag)), "parts": 38.0}
    table = pd.DataFrame({**columns, "own_error": (1 - claimed) * 0.7, "estimate": np.sqrt(claimed * 0.7)})
    return FoldResult("cells", ("vbagg",), "normal", bags, table)


def made(told=0.6, claimed=0.4, bags=60, held=0.9, error=0.3):
    folds = [scale("2", bags // 2, told, 1.0, 2, held, error, 1), scale("4", bags // 4, told, 1.0, 4, held, error, 2)]
    return Nested(tuple(folds), cells(claimed, bags))
