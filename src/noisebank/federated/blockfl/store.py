"""Content-addressed storage for models and terms: a folder of raw blocks named by CID, which any IPFS node can hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.identifiers import format_cid, hash_content, parse_cid

MAX_BLOCK_BYTES = 2**20
"""Size of one block: what IPFS nodes pass on to each other."""


class ContentStore(Protocol):
    """Contents by digest. It need not be trusted: what is read is compared with its digest."""

    def put(self, content: bytes) -> bytes:
        """Store a content; return its digest. Durable on return."""
        ...

    def get(self, digest: bytes) -> bytes | None:
        """Return the content with this digest; None if there is none, or another one under its name."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """Yield the digests of all contents."""
        ...


class FolderStore:
    """A store in a folder. Safe for many processes: files are written aside and moved into place whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, content: bytes) -> bytes:
        """Store a content; return its digest. Durable on return."""
        if len(content) > MAX_BLOCK_BYTES:
            raise BadRequest("content", f"{len(content)} bytes", f"a block has at most {MAX_BLOCK_BYTES}")
        digest = hash_content(content)
        path = self.content_path(digest)
        if self.get(digest) == content:
            return digest
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return digest

    def get(self, digest: bytes) -> bytes | None:
        """Return the content with this digest; None if there is none, or another one under its name."""
        try:
            with self.content_path(digest).open("rb") as file:
                content = file.read(MAX_BLOCK_BYTES + 1)
        except OSError:
            return None
        return content if hash_content(content) == digest else None

    def content_path(self, digest: bytes) -> Path:
        """Return the path of a content's file."""
        return self.folder / format_cid(digest)

    def __iter__(self) -> Iterator[bytes]:
        for path in sorted(self.folder.glob("bafkrei*")):
            try:
                yield parse_cid(path.name)
            except BadRequest:
                continue
