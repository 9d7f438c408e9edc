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
