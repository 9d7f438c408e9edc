"""Settings of the service: from a file, the environment and the command line, each checked and documented."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noisebank.core.errors import BadRequest

ENVIRONMENT_PREFIX = "NOISEBANK_"


def define_setting(default: Any, text: str, least: float | None = None, most: float | None = None) -> Any:
    """Return a dataclass field with its description and, for numbers, its range."""
    return field(default=default, metadata={"text": text, "least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Settings:
    """How the service runs. Every name is also an environment variable, in capitals after NOISEBANK_."""

    bank: Path = define_setting(Path("bank"), "The bank's folder.")
    owner_key: Path | None = define_setting(
        None, "The owner's key, if it is not in the bank; needed only to set limits and budgets over HTTP."
    )
    host: str = define_setting("127.0.0.1", "Where to listen. Put a proxy with TLS in front of anything but loopback.")
    port: int = define_setting(8410, "The port.", 0, 65_535)
    origin: str = define_setting(
        "", "The address that browsers see, as https://bank.example; wallets sign in to it. Empty: http://host:port."
    )
    threads: int = define_setting(64, "Threads for everything besides answers.", 1, 1_000)
    batch: int = define_setting(128, "Answers of one table worked on at once.", 1, 1_000)
    queue: int = define_setting(512, "Requests that may wait for a table or a thread; one more gets 503.", 1, 100_000)
    rate: float = define_setting(50.0, "Requests a second of one key, in the long run.", 0.01, 1e6)
    burst: int = define_setting(200, "Requests of one key at once.", 1, 1_000_000)
    open_rate: float = define_setting(
        200.0, "Requests a second of all callers without a key, from one address.", 0.01, 1e6
    )
    open_burst: int = define_setting(
        400, "Requests at once of all callers without a key, from one address.", 1, 1_000_000
    )
    max_body: int = define_setting(65_536, "Bytes of a request's body.", 1_024, 16_777_216)
    max_batch_body: int = define_setting(1_048_576, "Bytes of the body of a batch of questions.", 1_024, 16_777_216)
    max_batch_answers: int = define_setting(
        33_554_432, "Bytes of the answers to a batch; what is left of it then is not asked.", 1_024, 1 << 30
    )
    session_hours: float = define_setting(12.0, "How long a sign-in lasts.", 0.001, 8_760)
    nonce_seconds: float = define_setting(300.0, "How long a wallet has to sign in.", 0.1, 86_400)
    skew_seconds: float = define_setting(60.0, "How far a caller's clock may be off.", 0, 3_600)
    streams: int = define_setting(100, "Live streams of events at once.", 1, 100_000)
    stream_seconds: float = define_setting(600.0, "How long a live stream lasts; clients connect again.", 0.01, 86_400)
    shutdown_seconds: float = define_setting(30.0, "How long a shutdown waits for what is under way.", 0, 3_600)
    anchors: str = define_setting(
        "", "A node of the chain on which the journal is anchored; the ledger page then shows the anchors."
    )
    learning: str = define_setting(
        "", "Where a crowd's tasks are: a folder of `noisebank learn host`, or a node. Empty: the bank's own chain."
    )
    learning_contract: str = define_setting("", "The model registry's address; not needed on a chain of one's own.")
    learning_models: Path = define_setting(Path("models"), "Folder of the crowd's models, by content identifier.")
    learning_test: str = define_setting(
        "", "Examples to measure every round's model on, as `learn status --test` takes them. Empty: none."
    )
    learning_reports: str = define_setting(
        "", "Folder of what `relay host --report` wrote: the page Learning shows who was promised what. Empty: none."
    )
    docs: str = define_setting(
        "", "Address of the built documentation, ending in /; pages then link to it instead of naming its files."
    )
    secure_cookies: bool = define_setting(False, "Cookies over TLS only. Set it wherever there is TLS.")

    @property
    def address(self) -> str:
        """The address that browsers see: `origin`, or host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.origin.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def domain(self) -> str:
        """Host and port of that address: what wallets sign in to."""
        return urlsplit(self.address).netloc

    def to_json(self) -> dict[str, str]:
        """Return all settings as text, for `noisebank serve --settings`."""
        return {option.name: str(getattr(self, option.name)) for option in fields(self)}


def read_settings(path: Path | None = None, environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings: defaults, then the file (its table [service], or all of it), the environment, overrides."""
    values: dict[str, Any] = {}
    if path is not None:
        values |= _read_file(path)
    variables = os.environ if environment is None else environment
    for option in fields(Settings):
        if text := variables.get(ENVIRONMENT_PREFIX + option.name.upper()):
            values[option.name] = text
    values |= {name: value for name, value in overrides.items() if value is not None}
    settings = Settings()
    for name, value in values.items():
        settings = replace(settings, **{name: _parse_value(name, value)})
    if settings.origin and urlsplit(settings.origin).scheme not in ("http", "https"):
        raise BadRequest("origin", settings.origin, "must be an address with http or https")
    if settings.docs and urlsplit(settings.docs).scheme not in ("http", "https"):
        raise BadRequest("docs", settings.docs, "must be an address with http or https")
    return settings


def list_settings() -> list[tuple[str, str, str]]:
    """Return name, default and meaning of every setting; a test holds the docs to it."""
    return [(option.name, str(option.default), option.metadata["text"]) for option in fields(Settings)]


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError):
        raise BadRequest("settings", path, "cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise BadRequest("settings", path, f"is not TOML: {error}") from None
    table = content.get("service", content)
    known = {option.name for option in fields(Settings)}
    for name in table:
        if name not in known:
            raise BadRequest("settings", name, f"is no setting; there are {', '.join(sorted(known))}")
    return dict(table)


def _parse_value(name: str, value: Any) -> Any:
    option = next(option for option in fields(Settings) if option.name == name)
    kind = str(option.type)
    if kind.startswith("Path"):
        return Path(value)
    if kind == "str":
        return str(value)
    if kind == "bool":
        text = str(value).lower()
        if text not in ("true", "false", "1", "0", "yes", "no"):
            raise BadRequest(name, value, "must be true or false")
        return text in ("true", "1", "yes")
    try:
        number: float = int(str(value)) if kind == "int" else float(value)
    except (TypeError, ValueError):
        raise BadRequest(name, value, "must be a whole number" if kind == "int" else "must be a number") from None
    least, most = option.metadata["least"], option.metadata["most"]
    if not least <= number <= most:
        raise BadRequest(name, value, f"must lie between {least:g} and {most:g}")
    return number
