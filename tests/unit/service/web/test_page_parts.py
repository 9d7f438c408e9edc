"""Parts of pages that depend on little: heat maps, fees, anchors that are remembered; milliseconds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from noisebank.core.errors import NoisebankError
from noisebank.policy.model import Column, Kind
from noisebank.service.web import anchors, fees
from noisebank.service.web.heat_maps import MAX_CELLS, make_heat_maps
from noisebank.service.web.svg import MAX_HEAT_SIDE

UNIT = 10**18


def text_column(name: str, count: int, **more: Any) -> Column:
    return Column(name, Kind.TEXT, keys=tuple(f"{name}{number}" for number in range(count)), **more)


def account(*cubes: tuple[Column, ...]) -> Any:
    """An account in which cell n of a cube was charged n."""
    columns = {column.name: column for cube in cubes for column in cube}
    books = SimpleNamespace(
        largest_cell_charge=lambda id, number: 7.5 + number,
        get_cell_charges=lambda id, number: SimpleNamespace(charge_at=lambda cell: cell * UNIT),
    )
    names = tuple(tuple(column.name for column in cube) for cube in cubes)
    return SimpleNamespace(
        id=b"a", context=SimpleNamespace(policy=SimpleNamespace(columns=columns, cubes=names)),
        ledger=SimpleNamespace(books=books),
        cubes=SimpleNamespace(cube_numbers=tuple(range(1, len(cubes) + 1))),
    )  # fmt: skip


def test_a_cube_of_one_column_is_one_row() -> None:
    (shown,) = make_heat_maps(account((text_column("a", 3, complete=True),)))
    assert shown.row_labels == ("a",) and shown.column_labels == ("a0", "a1", "a2")
    assert shown.charges == ((0.0, 1.0, 2.0),) and (shown.cell_count, shown.max_charge) == (3, 8.5)


def test_a_long_column_is_one_column_of_merged_rows() -> None:
    count = MAX_HEAT_SIDE + 1
    (shown,) = make_heat_maps(account((text_column("a", count, complete=True),)))
    assert shown.column_labels == ("charged",) and shown.row_labels[:2] == ("a0 … a1", "a2 … a3")
    assert shown.charges[:2] == ((1.0,), (3.0,)) and len(shown.row_labels) == -(-count // 2)
    (whole,) = make_heat_maps(account((text_column("a", count, complete=True),)), unmerged=True)
    assert whole.row_labels[:2] == ("a0", "a1") and whole.charges == tuple((float(cell),) for cell in range(count))
    (just,) = make_heat_maps(account((text_column("a", MAX_HEAT_SIDE, complete=True),)))
    assert just.row_labels == ("a",) and len(just.column_labels) == MAX_HEAT_SIDE


def test_cells_of_several_columns_are_in_the_order_of_the_cube_with_what_is_in_no_group() -> None:
    a, b, c = text_column("a", 2), text_column("b", 1, nullable=True), Column("c", Kind.BOOLEAN)
    first, second = make_heat_maps(account((a, b), (a, b, c)))
    assert first.row_labels == ("a0", "a1", "none of them") and first.column_labels == ("b0", "none of them", "missing")
    assert first.charges == ((0.0, 1.0, 2.0), (3.0, 4.0, 5.0), (6.0, 7.0, 8.0))
    assert second.row_labels[:4] == ("a0 / b0", "a0 / none of them", "a0 / missing", "a1 / b0")
    assert second.column_labels == ("false", "true") and second.charges[3] == (6.0, 7.0)
    assert second.max_charge == 9.5 and second.to_json()["charged"][0] == [0.0, 1.0]


def test_a_cube_of_too_many_cells_is_described_only() -> None:
    wide, tall = text_column("a", 256, complete=True), text_column("b", MAX_CELLS // 256, complete=True)
    (just,) = make_heat_maps(account((wide, tall)))
    assert just.cell_count == MAX_CELLS and just.charges
    (beyond,) = make_heat_maps(account((wide, text_column("b", MAX_CELLS // 256 + 1, complete=True))))
    assert beyond.cell_count == MAX_CELLS + 256 and not beyond.charges and beyond.max_charge == 8.5


def test_fees_are_asked_for_once_and_what_has_none_is_left_out() -> None:
    asked: list[str] = []
    receipts: dict[str, Any] = {
        "0x01": {"gasUsed": "0x10", "effectiveGasPrice": "0x3", "blockNumber": "0x7"}, "0x02": None,
        "0x03": {"gasUsed": "0x10"}, "0x04": {"gasUsed": "0x1", "effectiveGasPrice": "0x1", "blockNumber": "0x8"},
    }  # fmt: skip

    def ask(method: str, name: str) -> Any:
        assert method == "eth_getTransactionReceipt"
        asked.append(name)
        return receipts[name]

    hashes = {(b"a", b"x"): [b"\x01", b"\x04"], (b"a", b"y"): [b"\x01", b"\x02", b"\x03"]}
    chain: Any = SimpleNamespace(follower=SimpleNamespace(transactions=hashes), node=SimpleNamespace(ask=ask))
    entries: Any = [SimpleNamespace(account=b"a", id=id) for id in (b"x", b"y", b"z")]
    cache = fees.FeeCache()
    for _ in range(2):
        paid = cache.find_fees(chain, entries)
        assert paid[b"x"] == [fees.Fee("0x01", 7, 48), fees.Fee("0x04", 8, 1)]
        assert paid[b"y"] == [fees.Fee("0x01", 7, 48)] and paid[b"z"] == []
    assert asked.count("0x01") == asked.count("0x04") == 1 and asked.count("0x02") == 2


@pytest.mark.parametrize("fails", [False, True])
def test_anchors_are_read_anew_after_a_while(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    now, reads = [1_000.0], []

    def find(node: Any, genesis: bytes, sealer: str) -> list[Any]:
        reads.append((genesis, sealer))
        if fails:
            raise NoisebankError("no node there")
        return [
            SimpleNamespace(number=number, block=9, transaction="0xt", head=b"h%d" % number) for number in (3, 5, 8)
        ]

    class Chain:
        genesis, sealing_key = SimpleNamespace(digest=b"g"), SimpleNamespace(address="0xs")

        def head(self) -> Any:
            return SimpleNamespace(number=5)

        def block_digest(self, number: int) -> bytes:
            return {3: b"h3", 5: b"other"}[number]

    monkeypatch.setattr(anchors, "EmbeddedLedger", Chain)
    monkeypatch.setattr(anchors, "Node", lambda url, timeout: SimpleNamespace(chain_id=lambda: 17))
    monkeypatch.setattr(anchors, "find_anchors", find)
    monkeypatch.setattr(anchors, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bank = SimpleNamespace(ledger=Chain())
    state: Any = SimpleNamespace(
        settings=SimpleNamespace(anchors="http://n"), operations=SimpleNamespace(bank=bank), anchored=None
    )
    first = anchors.read_anchors(state)
    assert first is not None and reads == [(b"g", "0xs")]
    facts = first.to_json()
    if fails:
        assert facts == {"chain_id": 0, "anchors": [], "trouble": "no node there"}
    else:
        assert [(each["number"], each["agrees"]) for each in facts["anchors"]] == [(8, False), (5, False), (3, True)]
        assert facts["chain_id"] == 17 and facts["anchors"][0]["transaction"] == "0xt"
    now[0] += anchors.CACHE_SECONDS - 0.01
    assert anchors.read_anchors(state) is first and len(reads) == 1
    now[0] += 0.02
    assert anchors.read_anchors(state) is not first and len(reads) == 2
    state.settings.anchors = ""
    assert anchors.read_anchors(state) is None
