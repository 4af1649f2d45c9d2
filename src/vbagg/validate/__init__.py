"""How well are unseen bags predicted? Cross-validation over bags, scores, baselines, and a verdict in words.

    validation = cross_validate(model, bags, y, spatial_folds(bags, 5))
    validation.scores()
    print(validation.verdict("districts"))

- `folds.py` divides bags: at random, in compact regions, or as the user says
- `run.py` fits to all folds but one and predicts that one, for the model and its baselines
- `bag_scores.py` scores each unseen bag
- `result.py` gathers the bags of all folds: tables of scores, coverage, comparisons, calibration
- `verdict.py` puts them into words

    print(recovery(model, bags, y))

- `refits.py` simulates outputs from a fitted model and fits to them
- `recovered.py` tells what comes out: how much of what varies inside bags such data can show
"""

from vbagg.validate.folds import random_folds, spatial_folds
from vbagg.validate.recovered import Recovery, Refit
from vbagg.validate.refits import recovery
from vbagg.validate.result import FoldResult, Validation
from vbagg.validate.run import cross_validate, default_baselines, validate_fold

__all__ = [
    "FoldResult",
    "Recovery",
    "Refit",
    "Validation",
    "cross_validate",
    "default_baselines",
    "random_folds",
    "recovery",
    "spatial_folds",
    "validate_fold",
]
