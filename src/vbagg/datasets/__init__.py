"""Data to try the models on.

The paper's swiss roll and a malaria country like the paper's confidential one are simulated. Malaria in Madagascar
and the elevators regression are read from ``$VBAGG_DATA/<name>`` or from a folder that you name.
"""

from vbagg.datasets.aggregate import PARTS, AggregateData, SimulatedData
from vbagg.datasets.country import SimulatedCountry, rate_of_covariates, simulated_country
from vbagg.datasets.files import EARTH_RADIUS_KM, Elevators, Madagascar, elevators, elevators_parts, madagascar
from vbagg.datasets.splits import split_bags
from vbagg.datasets.swiss import swiss_roll, swiss_roll_parts

__all__ = [
    "EARTH_RADIUS_KM",
    "PARTS",
    "AggregateData",
    "Elevators",
    "Madagascar",
    "SimulatedCountry",
    "SimulatedData",
    "elevators",
    "elevators_parts",
    "madagascar",
    "rate_of_covariates",
    "simulated_country",
    "split_bags",
    "swiss_roll",
    "swiss_roll_parts",
]
