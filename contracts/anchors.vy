# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Anchors: pins the head of a journal that lives elsewhere
@license Apache-2.0
@author noisebank
@notice One small transaction says: this journal had this newest block now. Whoever later shows a
        shorter or another history of the same journal is found out by anybody who reads the logs.
@dev    It stores nothing and trusts nobody: a reader counts only what the journal's own sealer sent.
"""

event Anchored:
    journal: indexed(bytes32)   # digest of the journal's first line
    sender: indexed(address)
    number: uint256             # the newest block then,
    head: bytes32               # and its digest, which covers all before it

@external
def anchor(journal: bytes32, number: uint256, head: bytes32):
    """
    @notice Pins a journal's newest block.
    @param journal Digest of the journal's first line.
    @param number The newest block's number.
    @param head The newest block's digest.
    """
    log Anchored(journal=journal, sender=msg.sender, number=number, head=head)
