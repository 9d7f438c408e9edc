"""Somebody wants to break a round: bytes that mean nothing, bytes that never end, members and hosts that lie."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from hashlib import sha256

import numpy as np
import pytest

from noisebank import NoisebankError
from noisebank.federated import http_server
from noisebank.federated.relay import RelayMember, RelayTerms, collection, transport
from support.internals import (
    AttemptCollector,
    AttemptKey,
    ChainClaims,
    Host,
    Key,
    Message,
    MessageServer,
    MessageSigner,
    Refused,
    SystemEntropy,
    Tampered,
    ask,
    entry_to_json,
    keccak,
    new_attempt,
    parse_endpoint,
    to_printable,
)
from support.patience import FACTOR, join_threads, patience, wait_until
from support.relay import check_wire, made_plan, play

QUICK = round(3_000 * FACTOR)


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch):
    monkeypatch.setattr(collection, "POLL_SECONDS", 0.1)


def new_key() -> Key:
    return Key(SystemEntropy().token())


# Bytes ----------------------------------------------------------------------------------------------------------------


def answering(*pieces: bytes, first: bytes = b"", pause: float = 0.0, for_ever: bool = False):
    """A listener that reads a little and then says `first` and `pieces`, these again and again if `for_ever`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        link, _ = listener.accept()
        with link, listener:
            link.settimeout(patience())
            try:
                link.recv(2**16)
                link.sendall(first)
                while True:
                    for piece in pieces:
                        link.sendall(piece)
                        time.sleep(pause)
                    if not for_ever:
                        return
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x"),  # headers, a byte at a time
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),  # a body, a byte at a time
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
    ],
    ids=["header", "body", "continue"],
)
def test_an_answer_in_drops_does_not_hold_anybody(first, drop):
    """It goes on for hours: whoever gives up does so because its patience has ended."""
    with pytest.raises(NoisebankError):
        ask(answering(drop, first=first, pause=0.01, for_ever=True), b"x", 0.6)


@pytest.mark.parametrize(
    "said",
    [
        b"", b"\r\n", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"\x00" * 500, b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500 + b"\r\n", b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 302 Go\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    ],
    ids=lambda said: repr(said[:30]),
)  # fmt: skip
def test_any_answer_is_an_error_of_ours_or_a_message(said):
    pen = MessageSigner(new_key())
    with pytest.raises(NoisebankError):
        Message.decode(ask(answering(said), pen.sign_message("r", 1, "open", "0x").encode(), patience()))


def signed(header: str, key: Key) -> bytes:
    """A message with any header at all, truly signed."""
    return len(header).to_bytes(4, "big") + header.encode() + key.sign(_digest(header)) + b""


def _digest(header: str) -> bytes:
    return keccak(b"noisebank relay message 1\n", header.encode())


@pytest.mark.parametrize("depth", [1, 7, 8, 100, 480, 900, 960, 990, 2_000, 100_000])
def test_lists_in_lists_are_counted(depth):
    key = new_key()
    nested = "[" * depth + "]" * depth
    header = (
        f'{{"attempt":1,"body":{{"x":{nested}}},"from":"{key.address}","kind":"open","payload":"'
        f'{sha256(b"").hexdigest()}","round":"r","seq":1,"to":"0x"}}'
    )
    if depth < 8:
        assert Message.decode(signed(header, key)).sender == key.address
    else:
        with pytest.raises(Tampered):
            Message.decode(signed(header, key))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1.5", "1e400", '"\\ud800"', "9" * 5_000, "null", "[NaN]"])
def test_odd_numbers_in_a_header_are_refused(value):
    key = new_key()
    header = (
        f'{{"attempt":{value},"body":{{}},"from":"{key.address}","kind":"open","payload":"'
        f'{sha256(b"").hexdigest()}","round":"r","seq":1,"to":"0x"}}'
    )
    with pytest.raises(Tampered):
        Message.decode(signed(header, key))
    inside = header.replace(f'"attempt":{value}', '"attempt":1').replace('"body":{}', f'"body":{{"x":{value}}}')
    if value not in ('"\\ud800"', "null"):
        with pytest.raises(Tampered):
            Message.decode(signed(inside, key))


@contextlib.contextmanager
def silent_crowd(server: MessageServer, size: int):
    """Connections; each begins to say something, and does not go on."""
    with contextlib.ExitStack() as stack:
        where = parse_endpoint(server.endpoint)
        crowd = [stack.enter_context(socket.create_connection(where, patience())) for _ in range(size)]
        for link in crowd:
            with contextlib.suppress(OSError):  # closed already
                link.sendall(b"POST /rel")
        yield crowd


def hung_up(link: socket.socket) -> bool:
    try:
        return link.recv(1) == b""
    except ConnectionError:
        return True


def test_a_crowd_gets_no_more_threads_than_there_are_links(monkeypatch):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(transport, "HEADER_SECONDS", patience())
    before = threading.active_count()
    with MessageServer("127.0.0.1:0", lambda raw: raw, patience()) as server, silent_crowd(server, 30) as crowd:
        assert all(hung_up(link) for link in crowd[8:])
        assert threading.active_count() <= before + 1 + 8
        with pytest.raises(NoisebankError):
            ask(server.endpoint, b"x", patience())
        for link in crowd:
            link.close()


def test_a_crowd_that_says_nothing_is_turned_away_in_time(monkeypatch):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(transport, "HEADER_SECONDS", 0.5)

    def answered() -> bool:
        try:
            return ask(server.endpoint, b"hello", patience()) == b"hello"
        except NoisebankError:
            return False

    with MessageServer("127.0.0.1:0", lambda raw: raw, patience()) as server, silent_crowd(server, 30):
        wait_until(answered, "the crowd lets go of the server")


def test_bytes_from_strangers_do_not_stop_a_round():
    refused: list[str] = []

    def meddle(host: Host, members: list[RelayMember]) -> None:
        pen, other = MessageSigner(new_key()), MessageSigner(new_key())
        forged = pen.sign_message(host._round, 1, "join", host.address, {"endpoint": "127.0.0.1:9"})
        stolen = Message(forged.round, 1, 1, "join", other.address, host.address, forged.body, b"", forged.signature)
        old = other.sign_message("an old round", 1, "join", host.address, {"endpoint": "127.0.0.1:9"})
        for raw in (
            b"",
            b"{}",
            b"\xff" * 100,
            b"\x00\x00\x00\x02{}" + bytes(65),
            json.dumps({"kind": "join"}).encode(),
            stolen.encode(),
            old.encode(),
            pen.sign_message(host._round, 1, "end", host.address, {"done": True}).encode(),
            pen.sign_message(host._round, 1, "pass", host.address, {"chain": 0}).encode(),
            pen.sign_message(host._round, 1, "join", host.address, {"endpoint": "file:///etc/passwd"}).encode(),
            pen.sign_message(host._round, 1, "join", host.address, {"endpoint": ["127.0.0.1:1"]}).encode(),
            pen.sign_message(host._round, 1, "join", members[0].address, {"endpoint": "127.0.0.1:9"}).encode(),
        ):
            with pytest.raises(Refused) as reason:
                ask(host.endpoint, raw, patience())
            refused.append(str(reason.value))
        assert not set(host._replay_guard._seen) - {member.address for member in members}, "strangers leave no trace"

    played = play(RelayTerms(20, mode="bas"), users=3, meddle=meddle)
    assert played.round.done and played.round.member_count == 3 and len(refused) == 12
    assert any("not signed by its sender" in reason for reason in refused)
    assert any("another round" in reason for reason in refused)


# Members --------------------------------------------------------------------------------------------------------------


class Accusing(RelayMember):
    """Complains about everybody, several times."""

    refusals: list[str]

    def _forward_sum(self, attempt, chain_number, before):
        self.refusals = []
        others = [entry.address for entry in attempt.agreed_plan.members if entry != attempt.own_entry]
        for about in [*others, *others, "0xnobody"]:
            try:
                self._ask_host(
                    "complain", {"chain": chain_number, "about": about, "why": "\x1b[2J lies"}, attempt=attempt.number
                )
            except Refused as reason:
                self.refusals.append(str(reason))
        super()._forward_sum(attempt, chain_number, before)


def test_one_accuser_takes_one_neighbour_with_it_at_most():
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK), users=6, kinds={2: Accusing})
    accuser = played.keys[2].address
    assert played.round.done, played.round.reason
    assert accuser in played.round.left_out and len(played.round.left_out) <= 2
    assert "\x1b" not in "".join(played.round.left_out.values())


class Short(RelayMember):
    """Sends a sum of another length."""

    def _forward_sum(self, attempt, chain_number, before):
        sealed, attempt_sealed = attempt, type(attempt).seal_sum
        total = attempt.add_contribution(chain_number, before, self._steps, self._entropy)[:-1]
        receiver = attempt.next_member(chain_number)
        to, public = (receiver.address, receiver.public_key) if receiver else (self._host_address, attempt.host_key)
        body = {"plan": attempt.agreed_plan.digest.hex(), "chain": chain_number}
        message = self._signer.sign_message(
            self._round, attempt.number, "pass", to, body, attempt_sealed(sealed, total, chain_number, to, public)
        )
        with pytest.raises(Refused):
            ask(receiver.endpoint if receiver else self._host_endpoint, message.encode(), patience())


@pytest.mark.parametrize("mode", ["bas", "masked"])
def test_a_sum_of_another_length_is_refused_and_its_sender_left_out(mode):
    played = play(RelayTerms(20, mode=mode, patience_ms=1_000), users=4, kinds={1: Short})
    assert played.round.done and list(played.round.left_out) == [played.keys[1].address]


class Nested(RelayMember):
    """Answers with what nobody can read."""

    answer = b""

    def _handle_roster(self, message):
        class Raw:
            def encode(self) -> bytes:
                return b"\x00\x00\x00\x02[]" + bytes(70)

        return Raw()


def test_an_unreadable_answer_leaves_out_its_sender_only():
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK), users=4, kinds={0: Nested})
    assert played.round.done and list(played.round.left_out) == [played.keys[0].address]


class Claiming(RelayMember):
    """Holds its sum and says something new in every state."""

    told = 0

    def _forward_sum(self, attempt, chain_number, before):
        wait_until(
            lambda: self._attempt is not attempt or attempt.number > 1 or self._ended.is_set(), "the round goes on"
        )
        super()._forward_sum(attempt, chain_number, before)

    def _handle_status(self, message):
        self.told += 1
        number = self.told
        body = {"received": [number], "sent": [number, number % 2 - 1], "receipts": {}}
        return self._signer.sign_reply(message, "state", body)


def test_claims_do_not_buy_time_for_ever():
    """The round ends, though the claims never would."""
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK), users=4, kinds={0: Claiming})
    assert played.round.done and played.keys[0].address in played.round.left_out


def test_states_only_grow_and_only_about_ones_own_chains():
    one, two = (
        ChainClaims(frozenset({0}), frozenset(), {}),
        ChainClaims(frozenset(), frozenset({0, 7}), {7: "x", 0: "y"}),
    )
    both = one.merge_with(two.restrict_to({0}))
    assert both == ChainClaims(frozenset({0}), frozenset({0}), {0: "y"})


def test_a_repeated_vector_does_not_hold_up_the_host():
    plan = made_plan(RelayTerms(4), [1.0, 1.0, 1.0])
    key = AttemptKey(b"\x09" * 32)
    made = AttemptCollector(plan, key, "0xhost", "test")
    before = made._last_progress
    pen = MessageSigner(Key(b"\x01" * 32))
    with pytest.raises(NoisebankError):
        made.accept_message(pen.sign_message("test", 1, "pass", "0xhost", {"chain": -1, "plan": plan.digest.hex()}))
    assert made._last_progress == before


def test_strangers_cannot_fill_a_members_memory():
    stranger = MessageSigner(new_key())
    reasons: list[str] = []

    class Watched(RelayMember):
        def _forward_sum(self, attempt, chain_number, before):
            for _ in range(3):
                message = stranger.sign_message(self._round, attempt.number, "pass", self.address, {"chain": 0})
                with pytest.raises(Refused) as reason:
                    ask(self._endpoint, message.encode(), patience())
                reasons.append(str(reason.value))
            assert stranger.address not in self._replay_guard._seen
            super()._forward_sum(attempt, chain_number, before)

    played = play(RelayTerms(20, mode="bas"), users=3, kinds={0: Watched})
    assert played.round.done and len(reasons) == 3


# Hosts ----------------------------------------------------------------------------------------------------------------


class Lying(Host):
    """Tells everybody of three members where there are four."""

    def ask_all(self, kind, body, attempt, quick=False):
        if kind != "roster" or len(self._joined) < 4:
            return super().ask_all(kind, body, attempt, quick)
        return super().ask_all(kind, {**body, "entries": body["entries"][:3]}, attempt, quick)


def test_a_host_that_hides_a_member_from_itself_gets_no_agreement():
    host = Lying(new_key(), RelayTerms(20, mode="bas", patience_ms=QUICK), 4)
    members = [RelayMember(new_key(), np.zeros(20), 1.0, host.endpoint) for _ in range(4)]
    sent: list[bytes] = []
    for member in members:
        member._tap = lambda to, raw: sent.append(raw)
    threads = [threading.Thread(target=_quietly, args=(member,)) for member in members]
    [thread.start() for thread in threads]
    ended = host.run()
    join_threads(threads)
    assert not [raw for raw in sent if b'"kind":"pass"' in raw and b'"attempt":1,' in raw]  # no sum under that list
    assert ended.left_out


def _quietly(member: RelayMember) -> None:
    try:
        member.run()
    except NoisebankError:
        return


@pytest.mark.parametrize(
    "terms",
    [
        None,
        [],
        {"dimension": 4},
        "all",
        {**RelayTerms(2).to_json(), "bound": {}},
        {**RelayTerms(2).to_json(), "attempts": None},
    ],
    ids=str,
)
def test_terms_that_cannot_be_understood_are_an_error_of_ours(terms):
    pen = MessageSigner(new_key())

    def handle(raw: bytes) -> bytes:
        return pen.sign_reply(Message.decode(raw), "terms", {"round": "r", "terms": terms}).encode()

    with MessageServer("127.0.0.1:0", handle, patience=patience()) as server, pytest.raises(NoisebankError):
        RelayMember(new_key(), [0.0, 0.0], 1.0, server.endpoint).run()


@pytest.mark.parametrize("members", [0, -3, "many", None, True, 10**30])
def test_an_end_that_makes_no_sense_gives_no_mean(members):
    body = {"done": True, "reason": "", "members": members}
    member, pen = RelayMember(new_key(), [0.0, 0.0], 1.0, "127.0.0.1:1"), MessageSigner(new_key())
    member._host_address, member._round, member._terms = pen.address, "r", RelayTerms(2, publish=True)
    try:
        member._handle_message(pen.sign_message("r", 1, "end", member.address, body, bytes(16)).encode())
    except NoisebankError:
        return
    assert members == 0 and member._outcome is not None and member._outcome.mean is None


def test_different_lists_for_different_members_end_in_refusals():
    """A host that tells one member of two others and another of three: their plans differ, no sum is taken."""
    pens = [MessageSigner(Key(bytes([number + 1]) * 32)) for number in range(3)]
    made = [new_attempt("r", 1, pen.address, f"h:{n}", 10**9 + n, SystemEntropy()) for n, pen in enumerate(pens)]
    signed_entries = []
    for pen, attempt in zip(pens, made, strict=True):
        body = {name: value for name, value in entry_to_json(attempt.own_entry).items() if name != "address"}
        signed_entries.append(pen.sign_message("r", 1, "enter", "0xhost", body).encode().hex())
    terms = RelayTerms(4, mode="bas")
    for attempt, count in zip(made, (2, 3, 3), strict=True):
        attempt.take_roster(
            {"entries": signed_entries[:count], "host_key": AttemptKey(bytes(31) + b"\x07").public_key.hex()}
        )
        attempt.plan = attempt.derive_plan(terms, [one.seed.hex() for one in made[:count]])
    one, other = made[0], made[1]
    assert one.agreed_plan.digest != other.agreed_plan.digest
    sealed = one.seal_sum(np.zeros(4, dtype=np.uint64), 0, other.own_entry.address, other.own_entry.public_key)
    for digest in (
        one.agreed_plan.digest,
        other.agreed_plan.digest,
    ):  # under its own plan, or pretending to be under the other's
        message = pens[0].sign_message(
            "r", 1, "pass", other.own_entry.address, {"plan": digest.hex(), "chain": 0}, sealed
        )
        with pytest.raises((Refused, Tampered)):
            other.take_sum(message)


def test_what_others_write_cannot_drive_a_terminal():
    assert to_printable("a\x1b[31mb\nc\u202ed" + "x" * 900) == "a?[31mb?c?d" + "x" * 489
    member, pen = RelayMember(new_key(), [0.0, 0.0], 1.0, "127.0.0.1:1"), MessageSigner(new_key())
    member._host_address, member._round = pen.address, "r"
    body = {"done": False, "reason": "\x1b]0;owned\x07", "members": 3}
    member._handle_message(pen.sign_message("r", 1, "end", member.address, body).encode())
    assert member._outcome is not None and member._outcome.reason == "?]0;owned?"


def test_a_round_with_all_of_it_still_has_the_promised_noise():
    played = play(RelayTerms(300, mode="bas", patience_ms=QUICK), users=5, kinds={2: Accusing})
    check_wire(played)
