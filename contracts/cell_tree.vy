# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Cell tree: the maximum of many cells while runs of them grow
@license Apache-2.0
@author noisebank
@notice A segment tree with lazy additions and a running maximum, kept in differences.
@dev    Let M(node) be the largest cell below a node. An inner node stores one word,
        M(left) - M(right), and nothing else: the root's M is kept by the caller. When M(left) rises
        by a and M(right) by b, the difference changes by a - b and M(node) rises by
        max(M(left) + a, M(right) + b) - max(M(left), M(right)). Where a = b nothing is read or
        written, so a run touches only the nodes that it cuts: at most 2 log2(cells) - 1 words.
        Nodes are numbered as in a heap: the root is 1, the children of i are 2i and 2i + 1, and
        cell j is node cells + j. The number of cells is a power of two.
"""

# Per tree and inner node: M(left) - M(right).
differences: HashMap[bytes32, HashMap[uint256, int256]]

@internal
def _add(tree: bytes32, cells: uint256, start: uint256, stop: uint256, amount: uint256) -> uint256:
    """
    @dev Adds `amount` to the cells [start, stop). Requires start < stop <= cells.
    @return By how much the largest cell rose.
    """
    whole: int256 = convert(amount, int256)
    # The nodes that hold the first and the last cell of the run, and the rise of each.
    low: uint256 = cells + start
    high: uint256 = cells + stop - 1
    low_rise: int256 = whole
    high_rise: int256 = whole
    for _: uint256 in range(20):  # the depth of the largest tree
        if high == 1:
            break
        if low // 2 == high // 2:
            # Both ends meet in one parent, or they met before and the sibling lies outside; from
            # there on `low` alone counts.
            if low != high:
                low_rise = self._raise(tree, low // 2, low_rise, high_rise)
            elif low % 2 == 0:
                low_rise = self._raise(tree, low // 2, low_rise, 0)
            else:
                low_rise = self._raise(tree, low // 2, 0, low_rise)
        else:
            # The sibling towards the other end lies inside the run, the other one outside.
            if low % 2 == 0:
                low_rise = self._raise(tree, low // 2, low_rise, whole)
            else:
                low_rise = self._raise(tree, low // 2, 0, low_rise)
            if high % 2 == 0:
                high_rise = self._raise(tree, high // 2, high_rise, 0)
            else:
                high_rise = self._raise(tree, high // 2, whole, high_rise)
        low = low // 2
        high = high // 2
    return convert(low_rise, uint256)

@internal
def _raise(tree: bytes32, node: uint256, left: int256, right: int256) -> int256:
    """
    @dev Enters the rises of a node's children.
    @return The rise of the node.
    """
    if left == right:
        return left
    difference: int256 = self.differences[tree][node]
    self.differences[tree][node] = difference + left - right
    return max(difference + left, right) - max(difference, 0)

@internal
@view
def _cell(tree: bytes32, cells: uint256, largest: uint256, cell: uint256) -> uint256:
    """
    @dev One cell's value, down from the root. Requires cell < cells.
    """
    value: int256 = convert(largest, int256)
    node: uint256 = 1
    width: uint256 = cells // 2
    for _: uint256 in range(20):
        if width == 0:
            break
        difference: int256 = self.differences[tree][node]
        node = 2 * node
        if cell & width == 0:
            value += min(difference, 0)
        else:
            value -= max(difference, 0)
            node += 1
        width = width // 2
    return convert(value, uint256)
