"""Effects of bags and what the others say of them, averaged over the members of a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbagg.conditioning import observe
from vbagg.effects import BagEffects, Tails, effect_law
from vbagg.laws import Law, Mixture
from vbagg.left_out import leave_out
from vbagg.likelihoods.base import Facts, Likelihood
from vbagg.likelihoods.censored import LOWER, UPPER
from vbagg.models.predicted import Member, Outputs, Plan

LEAST_LOG = 700.0
"""Differences of log weights beyond it are no longer numbers."""


@dataclass(frozen=True)
class Bounds:
    """Outputs as they are known: between `lower` and `upper`, NaN where nothing is."""

    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, outputs: Outputs) -> Bounds:
        """Of observed bags."""
        ends = (outputs.facts.get(name, outputs.y) for name in (LOWER, UPPER))
        return cls(*(np.where(outputs.seen, end, np.nan) for end in ends))

    def log_prob(self, law: Law) -> np.ndarray:
        """Log density of the outputs, or log probability of what lies within bounds; 0 where nothing is known."""
        ends = (self.lower, self.upper)
        lower, upper = (np.round(end) for end in ends) if law.discrete else ends
        return np.nan_to_num(law.log_prob_within(lower, upper), nan=0.0, neginf=-np.inf)


def bag_effects(
    members: Sequence[Member],
    plan: Plan,
    outputs: Outputs,
    labels: np.ndarray,
    likelihood: Likelihood,
    facts: Facts,
    rate_scale: float,
) -> BagEffects:
    """Effects by all members; `likelihood` and `facts` are those of new outputs, in the user's units.

    Without a bag's output members have other weights, MATH (26): it had drawn the average towards those that make it
    likely.
    """
    link = members[0].spec.link
    known = Bounds.of(outputs)
    effects, others, logs = [], [], []
    for member in members:
        found, parameters = plan.moments(member), member.parameters
        state = observe(member.spec, found, outputs.y, outputs.facts, parameters, risk=True)
        effects.append(effect_law(link, state))
        left_out = leave_out(member.spec, found, member.q.factor, outputs.y, outputs.facts, parameters)
        others.append(likelihood.predictive(left_out.total_law(link), facts, member.learnt(rate_scale)))
        logs.append(np.log(member.weight) - known.log_prob(others[-1]))
    weights = _normalised(np.stack(logs))
    if len(members) == 1:
        effect, from_others = effects[0], others[0]
    else:
        effect = Mixture(effects, [member.weight for member in members])
        from_others = Mixture(others, weights)
    return BagEffects(labels, effect, from_others, Tails.of(from_others, known.lower, known.upper), link.no_effect)


def _normalised(logs: np.ndarray) -> np.ndarray:
    """Weights (members, b) from their logarithms; the least likely members of an impossible output share it."""
    logs = np.minimum(logs, np.min(logs, axis=0) + LEAST_LOG)
    weights = np.exp(logs - np.max(logs, axis=0))
    return weights / weights.sum(axis=0)
