"""How well are unseen bags predicted? Cross-validation over bags, scores, baselines, and a verdict in words.

    validation = cross_validate(model, bags, y, spatial_folds(bags, 5))
    validation.scores()
    print(validation.verdict("districts"))

- `folds.py` divides bags: at random, in compact regions, or as the user says
- `run.py` fits to all folds but one and predicts that one, for the model and its baselines
- `bag_scores.py` scores each unseen bag
- `result.py` gathers the bags of all folds: tables of scores, coverage, comparisons, calibration
- `verdict.py` puts them into words
"""

from vbagg.validate.folds import random_folds, spatial_folds
from vbagg.validate.result import FoldResult, Validation
from vbagg.validate.run import cross_validate, default_baselines, validate_fold

__all__ = [
    "FoldResult",
    "Validation",
    "cross_validate",
    "default_baselines",
    "random_folds",
    "spatial_folds",
    "validate_fold",
]
