"""Log densities of likelihoods beside those of the scores, which are written for users of plain arrays."""

import numpy as np
import pytest

from vbagg import metrics
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.numerical import log_density

Y = np.array([0.0, 3.0, 17.0, 140.0])
T = np.array([0.4, 5.5, 11.0, 163.0])


@pytest.mark.parametrize(
    ("name", "scale", "facts", "learnt", "parameters"),
    [
        ("poisson", 1.0, {}, {}, {}),
        ("exponential", 1.0, {}, {}, {}),
        ("negative_binomial", 1.0, {}, {"dispersion": 0.31}, {"dispersion": 0.31}),
        ("normal", 1.0, {"tau_factor": np.array([1.5, 2.0, 3.0, 7.0])}, {"tau": 0.7}, None),
        ("binomial", 300.0, {"trials": np.array([4.0, 9.0, 30.0, 300.0])}, {}, None),
    ],
)
def test_densities_of_models_and_of_scores_agree(name, scale, facts, learnt, parameters):
    likelihood = get_likelihood(name)
    expected = T / scale
    if name == "normal":
        parameters = {"variance": learnt["tau"] * facts["tau_factor"]}
    if name == "binomial":
        parameters = {"trials": facts["trials"]}
    given = log_density(likelihood, Y, expected, facts, likelihood.logs(learnt))
    one_by_one = [
        -metrics.nll(
            Y[i : i + 1], expected[i : i + 1], name, **{k: np.broadcast_to(v, 4)[i] for k, v in parameters.items()}
        )
        for i in range(len(Y))
    ]
    np.testing.assert_allclose(given, one_by_one, rtol=1e-9)
