"""Information about what varies inside bags, averaged over the members of a posterior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vbagg.bags import Bags
from vbagg.conditioning import condition, observe, within_bags
from vbagg.information import NOTHING, Information, Shares, spreads_in_bags
from vbagg.models.predicted import Member, Outputs, Plan


def bag_information(members: Sequence[Member], plan: Plan, outputs: Outputs, bags: Bags) -> Information:
    """Variances inside bags before and after learning, MATH (27).

    The prior variance is the mean over members of that at their kernel parameters. The posterior is a mixture: to the
    mean of the members' variances comes the variance of their means, since what differs between sets of parameters that
    fit the data is not settled. Effects of bags without an output vary inside them as those of the others do, so that
    all bags are asked the same.
    """
    of_bags = Shares(plan.ready.bag, plan.share, len(plan.ready))
    weight = np.array([member.weight for member in members]) / sum(member.weight for member in members)
    prior, posterior, means = [], [], []
    for member in members:
        found = plan.moments(member, individuals=True)
        state = observe(member.spec, found, outputs.y, outputs.facts, member.parameters, risk=True, unseen_risk=True)
        within = within_bags(member.spec, found, state, of_bags.bag, plan.ready.effective_sizes())
        mean, _, gain = condition(found, state, of_bags.bag)
        spreads = spreads_in_bags(found, state, within, gain, of_bags)
        prior.append(spreads.prior)
        posterior.append(spreads.posterior)
        means.append(of_bags.apart(mean + within.mean))
    average = weight @ np.stack(means)
    between = weight @ (np.stack(means) - average) ** 2
    return Information(
        bags.labels,
        bags.bag,
        bags.weight,
        weight @ np.stack(prior),
        weight @ np.stack(posterior) + between,
        NOTHING * members[0].spec.link.typical_variance,
    )
