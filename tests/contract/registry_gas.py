"""What each call of the model registry costs on a real node.

    PYTHONPATH=src:tests .venv/bin/python -m contract.registry_gas

writes docs/results/crowd-gas.md.
"""

from __future__ import annotations

from contract.node import Node, OnAnvil
from support.internals import SortitionKey, compute_priority, count_seats, keccak, model_registry
from support.paths import ROOT

TABLE = ROOT / "docs" / "results" / "crowd-gas.md"
POSTER = "0x" + "aa" * 20
PEOPLE = [f"0x{number:040x}" for number in range(0x3001, 0x300B)]
KEYS = {who: SortitionKey(int(who, 16).to_bytes(32, "big")) for who in PEOPLE}
SECRET = b"s" * 32


class Meter(OnAnvil):
    """Remembers the gas of each call."""

    def gas(self, sender: str, function: str, *arguments: object) -> int:
        data = self.contract.encode_call(function, *arguments)  # type: ignore[arg-type]
        receipt = self._send(sender, self.address, data)
        assert receipt["status"] == "0x1", function
        return int(receipt["gasUsed"], 16)


def measured(node: Node) -> list[tuple[str, int]]:
    """A task with ten members and one round."""
    chain = Meter(node, model_registry())
    deployed = int(node.rpc("eth_getTransactionReceipt", node.rpc(
        "eth_getBlockByNumber", "latest", False)["transactions"][0])["gasUsed"], 16)  # fmt: skip
    members = tuple((who, 5) for who in PEOPLE)
    rows = [("deployment", deployed)]
    arguments = (SECRET, SECRET, keccak(SECRET), 2, 3, 25, 60, 0, False, 0, members)
    rows.append(("post, ten members", chain.gas(POSTER, "post", *arguments)))
    word = lambda number: number.to_bytes(32, "big")  # noqa: E731
    task = keccak(word(chain.chain_id), word(int(chain.address, 16)), word(int(POSTER, 16)), word(0))
    joins = []
    for who in PEOPLE:
        owned = keccak(word(chain.chain_id), word(int(chain.address, 16)), task, word(int(who, 16)))
        joins.append(chain.gas(who, "join", task, *KEYS[who].public_key.abi_words, *KEYS[who].sign(owned)))
    rows.append(("join: a key proved by a pairing", max(joins)))
    rows.append(("begin", chain.gas(POSTER, "begin", task, SECRET)))
    submits = [chain.gas(who, "submit", task, 1, keccak(who.encode()), bytes(32)) for who in PEOPLE]
    rows += [("submit", max(submits[:-1])), ("submit, the last one", submits[-1])]
    (message,) = chain.view("lot_message", task, 1, 1)
    draws = [chain.gas(who, "draw", task, 1, 1, *KEYS[who].sign(message)) for who in PEOPLE]
    rows.append(("draw: a lot checked by a pairing, seats counted", max(draws)))
    from support.internals import hash_signature

    lots = {who: hash_signature(KEYS[who].sign(message)) for who in PEOPLE}
    won = {who: count_seats(lots[who], 5, 25, 50) for who in PEOPLE}
    order = sorted((who for who in PEOPLE if won[who]), key=lambda who: compute_priority(lots[who], won[who]))
    verdicts = int("2221111111", 16)
    rows.append(("propose", chain.gas(order[0], "propose", task, 1, SECRET, verdicts)))
    (place,) = chain.view("place", task, 1, 1)
    votes = []
    for who in order[1:]:
        id, *_ = chain.view("proposals", place)
        if chain.view("stages", task)[0] != 8:
            break
        votes.append(chain.gas(who, "vote", task, id, True))
    rows += [("vote", max(votes[:-1])), ("vote, the one that finishes a round of ten", votes[-1])]
    return rows


def main() -> None:
    with Node() as node:
        rows = measured(node)
    lines = [
        "# Gas of the model registry",
        "",
        "Measured on anvil (cancun) by `python -m contract.registry_gas`: ten members, five coins each, f = 3.",
        "",
        "| call | gas |",
        "|---|---:|",
        *(f"| {name} | {gas:,} |" for name, gas in rows),
        "",
        f"A whole round of ten members: about {_round(dict(rows)):,} gas.",
    ]
    TABLE.write_text("\n".join(lines) + "\n")
    print(TABLE.read_text())


def _round(rows: dict[str, int]) -> int:
    return (
        9 * rows["submit"] + rows["submit, the last one"] + rows["propose"] + 6 * rows["vote"]
        + 10 * rows["draw: a lot checked by a pairing, seats counted"]
        + rows["vote, the one that finishes a round of ten"]
    )  # fmt: skip


if __name__ == "__main__":
    main()
