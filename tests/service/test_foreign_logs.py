"""What libraries log goes through the request log: lines of JSON, and nothing that quotes a request."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from support.patience import patience
from support.service import make_bank, served


def test_a_byte_of_a_form_stays_out_of_the_log(tmp_path: Path) -> None:
    """python-multipart quotes the byte that it did not expect. Before, that went to standard error as it was."""
    with served(make_bank(tmp_path)) as process:
        for path in ("/datasets/people/ask", "/sign-in", "/verify"):
            broken = {"content-type": "multipart/form-data; boundary=a"}
            httpx.post(process.address + path, content=b"--b secret=1", headers=broken, timeout=patience())
        with socket.create_connection(("127.0.0.1", urlsplit(process.address).port)) as connection:
            connection.sendall(b"secret nonsense\r\n\r\n")
            while connection.recv(1_024):
                pass
    lines = process.log.read_text().splitlines()
    events = [json.loads(line) for line in lines]  # nothing else
    library = [event for event in events if event["event"] == "library"]
    assert {event["logger"].partition(".")[0] for event in library} == {"python_multipart", "uvicorn"}
    assert {event["text"] for event in library} == {None, "Invalid HTTP request received."}
    said = [json.dumps({key: value for key, value in event.items() if key != "time"}) for event in library]
    assert not any(str(ord("b")) in text or "secret" in text for text in said)  # a time may have any digits
