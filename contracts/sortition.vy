# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Sortition: how many seats a lot wins, and with which priority
@license Apache-2.0
@author noisebank
@notice Each coin is a sub-user that is drawn with probability seats / coins of all. A lot decides
        for all coins of its owner at once, by the binomial distribution.
@dev    All numbers are integers of 2^-128, rounded down, so that everybody computes the same.
        j = min{j: u < P[Binomial(coins, p) <= j]}. The interval printed in the paper is off by one:
        it gives j - 1, and nothing at all for u below the first value.
"""

ONE: constant(uint256) = 2 ** 128
MAX_COINS: constant(uint256) = 64

@internal
@pure
def _seats(lot: bytes32, coins: uint256, wanted: uint256, all_coins: uint256) -> uint256:
    """
    @dev Seats of a member with so many coins, if `wanted` seats are expected in all.
    """
    if wanted >= all_coins:
        return coins
    u: uint256 = convert(lot, uint256) >> 128
    p: uint256 = ONE * wanted // all_coins
    q: uint256 = ONE - p
    mass: uint256 = ONE
    for i: uint256 in range(coins, bound=MAX_COINS):
        mass = mass * q // ONE
    below: uint256 = mass
    for j: uint256 in range(coins, bound=MAX_COINS):
        if u < below:
            return j
        mass = mass * (coins - j) // (j + 1) * p // q
        below += mass
    return coins

@internal
@pure
def _priority(lot: bytes32, seats: uint256) -> uint256:
    """
    @dev The smallest hash among the seats: whoever has the smallest of all leads, so that leadership
         is proportional to coins. (The paper takes the number of seats, which ties and favours the rich.)
    """
    best: uint256 = max_value(uint256)
    for i: uint256 in range(seats, bound=MAX_COINS):
        best = min(best, convert(keccak256(abi_encode(lot, i + 1)), uint256))
    return best
