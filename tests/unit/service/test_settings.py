"""Settings: file, environment, options, in this order; nonsense is refused by name."""

from __future__ import annotations

import dataclasses

import pytest

from noisebank.core.errors import BadRequest
from noisebank.service.settings import Settings, read_settings


def test_later_wins(tmp_path):
    (tmp_path / "s.toml").write_text('[service]\nport = 1\nthreads = 7\nhost = "::1"\nsecure_cookies = true\n')
    found = read_settings(tmp_path / "s.toml", {"NOISEBANK_PORT": "2", "NOISEBANK_RATE": "3.5"}, queue="9", host=None)
    assert (found.port, found.threads, found.rate, found.queue, found.secure_cookies) == (2, 7, 3.5, 9, True)
    assert found.address == "http://[::1]:2" and found.domain == "[::1]:2"
    assert read_settings(environment={"NOISEBANK_ORIGIN": "https://bank.example/"}).domain == "bank.example"


def test_every_setting_can_come_from_the_environment():
    for each in dataclasses.fields(Settings):
        value = {"int": "5000", "float": "5", "bool": "true", "str": "http://x", "Path": "p", "Path | None": "p"}[
            str(each.type)
        ]
        value = "50" if each.name in ("threads", "batch") else value
        found = read_settings(environment={f"NOISEBANK_{each.name.upper()}": value})
        assert str(getattr(found, each.name)) in (value, "5.0", "True")
        assert each.metadata["text"].endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", "x"), ("port", "70000"), ("port", "-1"), ("rate", "nan"), ("threads", "1.5"),
     ("secure_cookies", "perhaps"), ("origin", "ftp://x"), ("queue", "0")],
)  # fmt: skip
def test_nonsense_is_refused(name, value):
    with pytest.raises(BadRequest) as refused:
        read_settings(environment={f"NOISEBANK_{name.upper()}": value})
    assert refused.value.parameter == name


def test_unknown_names_and_files_are_refused(tmp_path):
    (tmp_path / "s.toml").write_text("prot = 1\n")
    with pytest.raises(BadRequest, match="prot"):
        read_settings(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text("= 1\n")
    with pytest.raises(BadRequest, match="TOML"):
        read_settings(tmp_path / "s.toml")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_settings(tmp_path / "none.toml")


ENDS = {
    "open_rate": (0.01, 1e6), "open_burst": (1, 1_000_000), "max_batch_answers": (1_024, 1 << 30), "port": (0, 65_535),
    "threads": (1, 1_000), "batch": (1, 1_000), "queue": (1, 100_000), "rate": (0.01, 1e6),
    "burst": (1, 1_000_000), "max_body": (1_024, 16_777_216), "max_batch_body": (1_024, 16_777_216),
    "session_hours": (0.001, 8_760), "nonce_seconds": (0.1, 86_400), "skew_seconds": (0, 3_600),
    "streams": (1, 100_000), "stream_seconds": (0.01, 86_400), "shutdown_seconds": (0, 3_600),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_settings_end_where_the_reference_says(name: str) -> None:
    step = 1 if isinstance(getattr(Settings(), name), int) else 1e-6
    for end, beyond in zip(ENDS[name], (-step, step), strict=True):
        assert getattr(read_settings(environment={f"NOISEBANK_{name.upper()}": str(end)}), name) == end
        with pytest.raises(BadRequest, match=name):
            read_settings(environment={f"NOISEBANK_{name.upper()}": str(end + beyond)})


def test_settings_are_what_the_reference_says_if_nobody_sets_them() -> None:
    said = {"port": 8410, "threads": 64, "batch": 128, "queue": 512, "rate": 50.0, "burst": 200, "max_body": 65_536,
            "max_batch_body": 1_048_576, "max_batch_answers": 33_554_432, "session_hours": 12.0, "skew_seconds": 60.0,
            "nonce_seconds": 300.0, "streams": 100, "stream_seconds": 600.0, "shutdown_seconds": 30.0,
            "open_rate": 200.0, "open_burst": 400, "secure_cookies": False}  # fmt: skip
    assert {name: getattr(Settings(), name) for name in said} == said
