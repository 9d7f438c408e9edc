"""Factory of the mechanisms for one number, by their names (`MECHANISM_NAMES`)."""

from __future__ import annotations

from functools import lru_cache

from noisebank.federated.ldp.laplace import Laplace
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.parameters import MECHANISM_NAMES, Parameters, check_epsilon, find_parameters

__all__ = ["MECHANISM_NAMES", "build_sampler", "make_mechanism"]


def make_mechanism(name: str = "best", epsilon: float = 1.0, scale: float = 1.0) -> Laplace | Mixture:
    """Returns the named mechanism for one number in [-1, 1] under epsilon-LDP.

    `scale` = d/k tunes it for a value that is sent with probability k/d (see `vectors`).
    """
    return build_sampler(find_parameters(name, check_epsilon(epsilon), float(scale)))


@lru_cache(maxsize=256)
def build_sampler(params: Parameters) -> Laplace | Mixture:
    """Returns the sampler for these parameters."""
    return Laplace(params) if params.name == "laplace" else Mixture(params)
