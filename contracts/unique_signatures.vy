# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Unique signatures: BLS on the curve BN254, checked by the EVM's own pairing
@license Apache-2.0
@author noisebank
@notice For each key and message there is one valid signature and no other, so its hash is a lot
        that its owner can prove and cannot choose.
@dev    Signatures are points of G1 (whose order is prime, so that no second point passes), keys
        points of G2; the pairing precompile refuses points outside of the curve and its subgroup.
        A message is hashed to the first curve point with an even y among keccak(message, 0),
        keccak(message, 1), ... as x. BN254 gives about 100 bits of security.
"""

FIELD: constant(uint256) = 21888242871839275222246405745257275088696311157297823662689037894645226208583
ROOT: constant(uint256) = 5472060717959818805561601436314318772174077789324455915672259473661306552146
# (FIELD + 1) / 4: to this power a square becomes one of its roots.
POWER: constant(address) = 0x0000000000000000000000000000000000000005
PAIRING: constant(address) = 0x0000000000000000000000000000000000000008
# The generator of G2, negated.
LESS_X_IMAGINARY: constant(uint256) = 11559732032986387107991004021392285783925812861821192530917403151452391805634
LESS_X_REAL: constant(uint256) = 10857046999023057135944570762232829481370756359578518086990519993285655852781
LESS_Y_IMAGINARY: constant(uint256) = 17805874995975841540914202342111839520379459829704422454583296818431106115052
LESS_Y_REAL: constant(uint256) = 13392588948715843804641432497768002650278120570034223513918757245338268106653
MOST_TRIES: constant(uint256) = 128   # each fails with probability 1/2

struct Key:
    x_imaginary: uint256   # in the order of EIP-197
    x_real: uint256
    y_imaginary: uint256
    y_real: uint256

@internal
@view
def _is_signed(key: Key, message: bytes32, x: uint256, y: uint256) -> bool:
    """
    @dev e(signature, -generator) e(hash of the message, key) = 1. False for anything that is no point.
         The point at infinity is refused as a signature and as a key.
    """
    if (x == 0 and y == 0) or (key.x_real == 0 and key.x_imaginary == 0):
        return False
    to_x: uint256 = 0
    to_y: uint256 = 0
    to_x, to_y = self._hashed(message)
    done: bool = False
    answer: Bytes[32] = b""
    done, answer = raw_call(
        PAIRING,
        abi_encode(
            x,
            y,
            LESS_X_IMAGINARY,
            LESS_X_REAL,
            LESS_Y_IMAGINARY,
            LESS_Y_REAL,
            to_x,
            to_y,
            key.x_imaginary,
            key.x_real,
            key.y_imaginary,
            key.y_real,
        ),
        max_outsize=32,
        is_static_call=True,
        revert_on_failure=False,
    )
    return done and len(answer) == 32 and convert(answer, uint256) == 1

@internal
@view
def _hashed(message: bytes32) -> (uint256, uint256):
    """
    @dev The point of G1 that is signed.
    """
    for i: uint256 in range(MOST_TRIES):
        x: uint256 = convert(keccak256(abi_encode(message, i)), uint256) % FIELD
        square: uint256 = uint256_addmod(uint256_mulmod(uint256_mulmod(x, x, FIELD), x, FIELD), 3, FIELD)
        raised: Bytes[32] = raw_call(
            POWER,
            abi_encode(convert(32, uint256), convert(32, uint256), convert(32, uint256), square, ROOT, FIELD),
            max_outsize=32,
            is_static_call=True,
        )
        y: uint256 = convert(raised, uint256)
        if uint256_mulmod(y, y, FIELD) == square:
            return x, (y if y % 2 == 0 else FIELD - y)
    raise "registry: no point"
