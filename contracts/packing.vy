# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Packing: what one reservation reads together lies in one word
@license Apache-2.0
@author noisebank
@notice Vyper gives every field of a struct its own storage word, and a cold word costs 2,100 gas to
        read and 5,000 to change. These three words are read by every reservation.
@dev    Amounts fit 96 bits: the contract refuses larger ones before it packs them.
"""

AMOUNT: constant(uint256) = 2 ** 96 - 1
SMALL: constant(uint256) = 2 ** 32 - 1

struct Desk:
    curator: address
    version: uint256       # of the table, from 1
    cubes: uint256         # declared so far; cube 0 is always there
    paused: bool

struct Money:
    budget: uint256
    spent: uint256         # of all versions: what earlier ones spent is the base of this one
    measurements: uint256

struct View:
    limit: uint256         # 0: this analyst may not ask
    used: uint256

@internal
@pure
def _desk(word: uint256) -> Desk:
    return Desk(
        curator=convert(word & (2 ** 160 - 1), address),
        version=(word >> 160) & SMALL,
        cubes=(word >> 192) & SMALL,
        paused=(word >> 224) == 1,
    )

@internal
@pure
def _desk_word(desk: Desk) -> uint256:
    paused: uint256 = 1 if desk.paused else 0
    return convert(desk.curator, uint256) | (desk.version << 160) | (desk.cubes << 192) | (paused << 224)

@internal
@pure
def _money(word: uint256) -> Money:
    return Money(budget=word & AMOUNT, spent=(word >> 96) & AMOUNT, measurements=word >> 192)

@internal
@pure
def _money_word(money: Money) -> uint256:
    return money.budget | (money.spent << 96) | (money.measurements << 192)

@internal
@pure
def _view(word: uint256) -> View:
    return View(limit=word & AMOUNT, used=word >> 96)

@internal
@pure
def _view_word(shown: View) -> uint256:
    return shown.limit | (shown.used << 96)
