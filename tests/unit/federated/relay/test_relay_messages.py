"""Signed messages, sealed sums, masks and the HTTP between them: what is altered, replayed or too long is refused."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from noisebank.core.errors import BadRequest, OutcomeUnknown, Refused, Tampered
from noisebank.federated.relay.messages import MAX_DEPTH, Message, MessageSigner, ReplayGuard, check_reply
from noisebank.federated.relay.sealing import AttemptKey, sum_masks
from noisebank.federated.relay.transport import MessageServer, PeerUnreachable, ask, parse_endpoint
from noisebank.ledger.signing import Key
from support.patience import patience, wait_until

ALICE, BOB = MessageSigner(Key(b"\x05" * 32)), MessageSigner(Key(b"\x06" * 32))


def message(**changes):
    return ALICE.sign_message("r", 1, "pass", BOB.address, {"chain": 0, **changes}, b"payload")


def test_a_message_survives_the_wire():
    sent = message()
    assert Message.decode(sent.encode()) == sent


def test_any_flipped_byte_is_found():
    raw = message().encode()
    for place in range(len(raw)):
        spoiled = bytearray(raw)
        spoiled[place] ^= 1
        with pytest.raises(Tampered):
            Message.decode(bytes(spoiled))
    for cut in (0, 3, 10, len(raw) - 1):
        with pytest.raises(Tampered):
            Message.decode(raw[:cut])


@pytest.mark.parametrize("kind", ["lists", "objects"])
def test_nesting_has_a_limit(kind):
    deep = 1
    for _ in range(MAX_DEPTH - 1):
        deep = [deep] if kind == "lists" else {"part": deep}
    assert Message.decode(message(extra=deep).encode()).body["extra"] == deep
    with pytest.raises(Tampered, match="lists in lists"):
        Message.decode(message(extra=[deep] if kind == "lists" else {"part": deep}).encode())


def test_a_header_has_at_most_two_mebibytes_and_a_payload_more():
    room = 2 * 2**20 - (len(message(text="").encode()) - 4 - 65 - len(b"payload"))
    assert Message.decode(message(text="x" * room).encode()).body["text"] == "x" * room
    with pytest.raises(Tampered, match="too long"):
        Message.decode(message(text="x" * (room + 1)).encode())
    payload = bytes(3 * 2**20)
    assert Message.decode(ALICE.sign_message("r", 1, "pass", BOB.address, {}, payload).encode()).payload == payload


def test_somebody_elses_name_is_found():
    sent = message()
    forged = Message("r", 1, sent.seq, "pass", BOB.address, ALICE.address, sent.body, sent.payload, sent.signature)
    with pytest.raises(Tampered, match="not signed by its sender"):
        Message.decode(forged.encode())


def test_replayed_misdirected_and_stale_messages_are_refused():
    inbox, sent = ReplayGuard(BOB.address), message()
    inbox.accept_once(sent, "r")
    with pytest.raises(Refused, match="replay"):
        inbox.accept_once(sent, "r")
    with pytest.raises(Refused, match="another round"):
        inbox.accept_once(message(), "other")
    with pytest.raises(Refused, match="somebody else"):
        ReplayGuard(ALICE.address).accept_once(sent, "r")
    inbox.accept_once(message(), "r")


def test_a_reply_belongs_to_one_question():
    asked, other = message(), message()
    reply = BOB.sign_reply(asked, "receipt").encode()
    assert check_reply(asked, reply).kind == "receipt"
    with pytest.raises(Tampered):
        check_reply(other, reply)
    stranger = MessageSigner(Key(b"\x07" * 32)).sign_reply(asked, "receipt").encode()
    with pytest.raises(Tampered):
        check_reply(asked, stranger)


def test_sealed_sums_open_for_the_receiver_only_and_for_one_purpose():
    a, b, c = (AttemptKey(bytes([n]) * 32) for n in (1, 2, 3))
    sealed = a.seal(b"sum", b.public_key, "a b 0", b"plan")
    assert b.open(sealed, a.public_key, "a b 0", b"plan") == b"sum"
    for wrong in (
        (c, a.public_key, "a b 0", b"plan"),
        (b, c.public_key, "a b 0", b"plan"),
        (b, a.public_key, "a b 1", b"plan"),
        (b, a.public_key, "a b 0", b"other"),
    ):
        with pytest.raises(Tampered):
            wrong[0].open(sealed, *wrong[1:])
    with pytest.raises(Tampered):
        b.open(sealed[:-1] + b"x", a.public_key, "a b 0", b"plan")
    with pytest.raises(Tampered):
        b.open(b"", a.public_key, "a b 0", b"plan")


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), b"short"])
def test_degenerate_keys_are_refused(public):
    with pytest.raises(Tampered):
        AttemptKey(b"\x09" * 32).derive_key(public, "mask", b"plan")


def test_masks_cancel_and_hide():
    keys = {f"0x{n}": AttemptKey(bytes([n + 1]) * 32) for n in range(4)}
    publics = [(who, key.public_key) for who, key in keys.items()]
    made = {who: sum_masks(key, who, [p for p in publics if p[0] != who], 500, b"plan") for who, key in keys.items()}
    assert not np.sum(list(made.values()), axis=0, dtype=np.uint64).any()
    for mask in made.values():  # uniform: the top bit is fair, within 5 standard deviations
        assert abs(np.count_nonzero(mask >> np.uint64(63)) - 250) < 5 * 500**0.5 / 2
    missing = sum(list(made.values())[:3], np.zeros(500, dtype=np.uint64))
    assert len(np.unique(missing)) == 500  # without one of them nothing is uncovered
    other = sum_masks(keys["0x0"], "0x0", publics[1:], 500, b"another plan")
    assert not np.array_equal(other, made["0x0"])


@pytest.mark.parametrize("text", ["", "host", "host:99999", "http://host:1", "a b:1", "host:1/x", "host:-1"])
def test_bad_endpoints_are_refused(text):
    with pytest.raises(BadRequest):
        parse_endpoint(text)


def test_http_limits():
    with MessageServer("127.0.0.1:0", lambda raw: raw[::-1], patience()) as server:
        assert ask(server.endpoint, b"abc", patience()) == b"cba"
        server.max_message = 10
        with pytest.raises(Refused, match="too long"):
            ask(server.endpoint, b"x" * 11, patience())
        with pytest.raises(OutcomeUnknown, match="too long"):
            ask(server.endpoint, b"x" * 10, patience(), limit=5)
        host, port = parse_endpoint(server.endpoint)
        for line in (b"GET / HTTP/1.0\r\n\r\n", b"POST /relay HTTP/1.0\r\nContent-Length: -1\r\n\r\n"):
            with socket.create_connection((host, port), timeout=patience()) as odd:
                odd.sendall(line)
                assert b" 501 " in (head := odd.recv(200)) or b" 400 " in head
    with pytest.raises(PeerUnreachable):
        ask(server.endpoint, b"abc", patience())


def test_one_byte_now_and_then_does_not_hold_a_thread():
    def hung_up() -> bool:
        try:
            slow.sendall(b"x")
            return slow.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    with (
        MessageServer("127.0.0.1:0", lambda raw: raw, patience=0.5) as server,
        socket.create_connection(parse_endpoint(server.endpoint), patience()) as slow,
    ):
        slow.sendall(b"POST /relay HTTP/1.0\r\nContent-Length: 1000000\r\n\r\n")
        wait_until(hung_up, "the server hangs up, long before the last byte", poll=0.05)


def test_handlers_errors_do_not_tell_strangers_anything():
    def handle(raw: bytes) -> bytes:
        raise ValueError("secret")

    with MessageServer("127.0.0.1:0", handle, patience()) as server, pytest.raises(Refused) as refused:
        ask(server.endpoint, b"x", patience())
    assert "secret" not in str(refused.value)


def test_everything_that_leaves_can_be_written_down_also_refusals():
    sent, received = [], []

    def handle(raw):
        raise Refused(raw.decode())

    with MessageServer("127.0.0.1:0", handle, patience(), tap=lambda to, raw: sent.append((to, raw))) as server:
        with pytest.raises(Refused, match="no"):
            ask(server.endpoint, b"no", patience(), tap=lambda to, raw: received.append((to, raw)))
        server.max_message = 1
        with pytest.raises(Refused, match="too long"):
            ask(server.endpoint, b"no", patience())
        assert received == [(server.endpoint, b"no")]
    assert sent == [("reply", b"no"), ("reply", b"too long")]


def test_a_peer_that_never_answers_does_not_hold_anybody():
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []
    thread = threading.Thread(target=lambda: held.append(listener.accept()[0]))
    thread.start()
    with pytest.raises(OutcomeUnknown):
        ask(f"127.0.0.1:{listener.getsockname()[1]}", b"x", 0.3)
    thread.join()
    held[0].close()
    listener.close()
