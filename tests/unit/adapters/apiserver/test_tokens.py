from __future__ import annotations

import os
from pathlib import Path

import pytest

from senro.adapters.apiserver.configuration import ClientCertificate, Token, TokenFile
from senro.adapters.apiserver.tokens import Authorization


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def replace(path: Path, content: str) -> None:
    """Replace the file as a kubelet does: a new file under the old name."""
    other = path.with_name("other")
    other.write_text(content)
    other.replace(path)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_fixed_token() -> None:
    """A fixed token is sent with each request, and a refresh does not change it."""
    authorization = Authorization(Token("made-up"))
    assert authorization.headers() == bearer("made-up")
    authorization.refresh()
    assert authorization.headers() == bearer("made-up")
    assert repr(authorization) == "<Authorization by token>"


def test_client_certificate_needs_no_header() -> None:
    """A client certificate needs no Authorization header."""
    authorization = Authorization(ClientCertificate("cert", "key"))
    authorization.refresh()
    assert authorization.headers() == {}
    assert repr(authorization) == "<Authorization by certificate>"


def test_replaced_file(path: Path) -> None:
    """The next request has the new token, even if size and time of the file are the same."""
    authorization = Authorization(TokenFile(str(path)))
    assert authorization.headers() == bearer("first")
    before = path.stat()
    replace(path, "other\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert authorization.headers() == bearer("other")
    assert repr(authorization) == "<Authorization by file>"


def test_overwritten_file(path: Path) -> None:
    """A file that is changed in place is detected by its time or its size."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    path.write_text("longer than before\n".replace(" ", "-"))
    assert authorization.headers() == bearer("longer-than-before")


def test_refresh_reads_the_file(path: Path) -> None:
    """`refresh` reads the file even if it seems unchanged."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    before = path.stat()
    with path.open("r+") as file:
        file.write("third")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert authorization.headers() == bearer("first")
    authorization.refresh()
    assert authorization.headers() == bearer("third")


@pytest.mark.parametrize("content", ["", " \n", "half a\ntoken", None])
def test_invalid_file_keeps_the_token(path: Path, content: str | None) -> None:
    """While the file is missing, empty or incomplete, the last token is used."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    if content is None:
        path.unlink()
    else:
        replace(path, content)
    assert authorization.headers() == bearer("first")
    authorization.refresh()
    assert authorization.headers() == bearer("first")
    replace(path, "second")
    assert authorization.headers() == bearer("second")


def test_request_without_a_token(tmp_path: Path) -> None:
    """Without a token the request has no Authorization header, and the apiserver answers 401."""
    assert Authorization(TokenFile(str(tmp_path / "none"))).headers() == {}
