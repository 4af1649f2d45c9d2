"""How well are unseen bags predicted? Cross-validation over bags, scores, baselines, and a verdict in words.

    validation = cross_validate(model, bags, y, spatial_folds(bags, 5))
    validation.scores()
    print(validation.summary("districts"))
    validation.verdict()  # one word, and why

- `folds.py` divides bags: at random, in compact regions, or as the user says
- `run.py` fits to all folds but one and predicts that one, for the model and its baselines
- `bag_scores.py` scores each unseen bag
- `result.py` gathers the bags of all folds: tables of scores, coverage, comparisons, calibration
- `words.py` puts them into words
- `nested.py` fits to unions of bags (`unions.py`) and scores the bags inside (`inside.py`) at each scale (`scales.py`);
  `carried.py` carries what is seen there to cells
- `refits.py` simulates outputs from a fitted model and fits to them; `recovered.py` tells how much of what varies
  inside bags such data can show
- `verdict.py` says in one word whether disaggregation helps, and why
"""

from vbagg.validate.folds import random_folds, spatial_folds
from vbagg.validate.nested import nested
from vbagg.validate.recovered import Recovery, Refit
from vbagg.validate.refits import recovery
from vbagg.validate.result import FoldResult, Validation
from vbagg.validate.run import cross_validate, default_baselines, validate_fold
from vbagg.validate.scales import Nested
from vbagg.validate.verdict import Verdict

__all__ = [
    "FoldResult",
    "Nested",
    "Recovery",
    "Refit",
    "Validation",
    "Verdict",
    "cross_validate",
    "default_baselines",
    "nested",
    "random_folds",
    "recovery",
    "spatial_folds",
    "validate_fold",
]
