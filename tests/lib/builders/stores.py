"""A content store whose files cannot be opened just now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def without(patch: pytest.MonkeyPatch, kind: str, number: int) -> None:
    """Let the system say error `number` of each file of a store's `index` or `body` that is opened."""
    opening, reading = os.open, Path.read_bytes

    def is_one(path: Any) -> bool:
        name = Path(path).name
        return f"/{kind}/" in f"/{path}" and len(name) == 64

    def open_(path: Any, *arguments: Any, **options: Any) -> int:
        directory = options.get("dir_fd")
        if is_one(path if directory is None else f"{Path(f'/proc/self/fd/{directory}').readlink()}/{path}"):
            raise OSError(number, os.strerror(number), str(path))
        return opening(path, *arguments, **options)

    def read(path: Path) -> bytes:
        if is_one(path):
            raise OSError(number, os.strerror(number), str(path))
        return reading(path)

    patch.setattr(os, "open", open_)
    patch.setattr(Path, "read_bytes", read)
