"""A content store whose files cannot be opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def without(patch: pytest.MonkeyPatch, kind: str, number: int) -> None:
    """Makes opening any file of a store's folder `kind` (`index` or `body`) fail with the error `number`."""
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
