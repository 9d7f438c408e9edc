"""The game, splits and chances against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest
from noisebank.federated.relay import collusion, game
from noisebank.federated.relay.remedies import may_join, reclip_slices, skip_error
from noisebank.federated.relay.split import order_by_preference, split_error, split_groups

BETAS = [0.5, 1.3, 0.9, 0.2]


def test_best_response_is_the_cheapest_on_a_grid():
    for beta, before in ((0.3, 0.0), (1.3, 0.2), (0.5, 0.6)):
        grid = np.linspace(0.0, 3.0, 30_001)
        with np.errstate(divide="ignore"):
            cost = grid + beta**1.5 / np.sqrt(before + grid)
        assert game.best_response(beta, before) == pytest.approx(grid[np.argmin(cost)], abs=2e-4)


def test_running_maximum_is_nash_and_the_papers_profile_is_not():
    assert game.is_nash(BETAS, game.nash_equilibrium(BETAS))
    assert not game.is_nash(BETAS, game.subgame_perfect(BETAS))
    assert game.is_nash(sorted(BETAS, reverse=True), game.subgame_perfect(sorted(BETAS, reverse=True)))
    stays = game.relay_costs([0.5, 1.0], game.subgame_perfect([0.5, 1.0]))[0]
    assert stays == pytest.approx(1.07541, abs=1e-5)
    assert game.relay_costs([0.5, 1.0], [game.TOP_UP * 0.5, 0.0])[0] == pytest.approx(0.94494, abs=1e-5)


def test_subgame_perfect_by_backward_induction_on_a_grid():
    betas = np.array([0.4, 0.9, 1.2, 0.7])
    grid = np.linspace(1e-3, 1.5 * game.TOP_UP * betas.max(), 500)
    total = grid.copy()  # what the total becomes when so much noise is in before the last has moved
    for beta in betas[:0:-1]:
        later = total.copy()
        for i in range(len(grid)):
            total[i] = later[i:][np.argmin(beta**1.5 / np.sqrt(grid[i:]) + later[i:])]
    first = grid[np.argmin(betas[0] ** 1.5 / np.sqrt(grid) + total)]
    assert first == pytest.approx(float(game.subgame_perfect(betas)[0]), abs=2 * (grid[1] - grid[0]))


def test_central_optimum_beats_random_profiles_and_the_printed_one():
    best = game.relay_costs(BETAS, game.central_optimum(BETAS)).sum()
    made = simulation_rng(2)
    for _ in range(300):
        assert game.relay_costs(BETAS, made.uniform(0.0, 0.6, 4) + 1e-9).sum() >= best - 1e-12
    wide = [2.0, 6.0, 13.0]
    printed = [game.TOP_UP * np.mean(wide) ** (2 / 3), 0.0, 0.0]
    assert game.relay_costs(wide, game.central_optimum(wide)).sum() < game.relay_costs(wide, printed).sum()


def test_price_of_anarchy_is_the_ratio_of_costs_and_within_its_limits():
    for betas in simulation_rng(3).uniform(0.0, 1.3, (200, 10)):
        ratio = (
            game.relay_costs(betas, game.subgame_perfect(betas)).sum()
            / game.relay_costs(betas, game.central_optimum(betas)).sum()
        )
        assert float(game.price_of_anarchy(betas)) == pytest.approx(ratio, rel=1e-12)
        assert 1.0 <= ratio <= min(game.anarchy_limit(10), betas.max() / betas.min()) + 1e-12
    assert game.anarchy_limit(10) == pytest.approx(1.857, abs=5e-4)
    close = np.linspace(0.9, 1.0, 10)
    assert game.printed_anarchy_bound(close) < 1.0 < game.price_of_anarchy(close)


def test_truth_is_the_best_bid():
    for others in ([0.2], [0.9], [3.0]):
        honest = game.bid_cost(1.0, 1.0, others)
        assert all(game.bid_cost(1.0, bid, others) >= honest - 1e-12 for bid in np.linspace(0.01, 5.0, 500))


def test_costs_are_not_equal_and_infinite_without_noise():
    costs = game.relay_costs(BETAS, game.subgame_perfect(BETAS))
    assert costs.max() > 1.3 * costs.min()
    assert np.isinf(game.relay_costs([1.0, 0.0], [0.0, 0.0])).tolist() == [True, False]


@pytest.mark.parametrize("bad", [[], [float("nan")], [-1.0], [float("inf")], 3.0])
def test_bad_preferences_are_refused(bad):
    with pytest.raises(BadRequest):
        game.nash_equilibrium(bad)


def test_nobody_wants_privacy_has_no_price():
    with pytest.raises(BadRequest):
        game.price_of_anarchy([0.0, 0.0])


def test_sorted_groups_are_the_best_split_by_enumeration():
    from itertools import permutations

    betas = [0.1, 0.5, 0.7, 0.2, 1.1, 0.6]
    best = min(split_error(betas, split_groups(order, 3)) for order in permutations(range(6)))
    assert split_error(betas, split_groups(order_by_preference(betas), 3)) == pytest.approx(best)
    assert sorted(np.concatenate(split_groups(range(7), 3)).tolist()) == list(range(7))
    with pytest.raises(BadRequest):
        split_groups(range(3), 4)


def test_chances_match_a_sum_over_all_coalitions():
    users, p = 5, 0.3
    exact = dict.fromkeys(collusion.CHANCES, 0.0)
    for place in range(users):
        for bits in range(2 ** (users - 1)):
            bad = {other for number, other in enumerate(o for o in range(users) if o != place) if bits >> number & 1}
            chance = p ** len(bad) * (1 - p) ** (users - 1 - len(bad)) / users
            before, after = any(b < place for b in bad), any(b > place for b in bad)
            exact["weak"] += chance * (place - 1 in bad and place + 1 in bad)
            exact["strong"] += chance * (before and after)
            exact["published"] += chance * before
    for name, chance in collusion.CHANCES.items():
        assert chance(users, p) == pytest.approx(exact[name], rel=1e-12)
    closed = 1 + 0.7**4 - 2 * (1 - 0.7**5) / (5 * 0.3)
    assert collusion.strong_chance(5, 0.3) == pytest.approx(closed)
    assert collusion.printed_strong_chance(10, 0.1) > 1.0 and collusion.printed_strong_chance(10, 0.99) < 0.0


def test_thresholds():
    found = [collusion.collusion_threshold(chance, 10) for chance in collusion.CHANCES.values()]
    assert found == pytest.approx([0.1118, 0.03044, 0.002236], rel=1e-3)
    assert collusion.collusion_threshold(collusion.weak_chance, 2) == 1.0
    with pytest.raises(BadRequest):
        collusion.weak_chance(10, 1.5)


def test_remedies():
    assert may_join(0.03, 10, "strong") and not may_join(0.031, 10, "strong")
    with pytest.raises(BadRequest):
        may_join(float("nan"), 10)
    cut = reclip_slices(np.array([3.0, 4.0, 0.1, 0.0]), [(0, 2), (2, 4)], 1.0)
    assert np.linalg.norm(cut[:2]) <= 1.0 and cut[0] / cut[1] == pytest.approx(0.75) and cut[2] == 0.1
    for norm in (0.0, -1.0, float("nan")):
        with pytest.raises(BadRequest, match="above 0"):
            reclip_slices(np.array([3.0, 4.0]), [(0, 2)], norm)
    assert skip_error(0.5, 1 / 3, 10) == pytest.approx(1 / 30)
    with pytest.raises(BadRequest):
        skip_error(1.0, 1.0, 10)
