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
    """As a kubelet does it: a new file under the old name."""
    other = path.with_name("other")
    other.write_text(content)
    other.replace(path)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token() -> None:
    """A fixed token is sent with each request and cannot become another one."""
    authorization = Authorization(Token("made-up"))
    assert authorization.headers() == bearer("made-up")
    assert authorization.refresh() is False
    assert repr(authorization) == "<Authorization by token>"


def test_a_certificate() -> None:
    """With a client certificate nothing is said in headers."""
    authorization = Authorization(ClientCertificate("cert", "key"))
    assert authorization.headers() == {}
    assert authorization.refresh() is False
    assert repr(authorization) == "<Authorization by certificate>"


def test_a_file_that_is_replaced(path: Path) -> None:
    """The next request after a rotation carries the new token, though its size and time are the old ones."""
    authorization = Authorization(TokenFile(str(path)))
    assert authorization.headers() == bearer("first")
    before = path.stat()
    replace(path, "other\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert authorization.headers() == bearer("other")
    assert repr(authorization) == "<Authorization by file>"


def test_a_file_that_is_written_over(path: Path) -> None:
    """A file that is changed in place is noticed by its time or its size."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    path.write_text("longer than before\n".replace(" ", "-"))
    assert authorization.headers() == bearer("longer-than-before")


def test_after_a_401(path: Path) -> None:
    """After a 401 the file is read whatever its marks say, and only another token is worth another try."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    assert authorization.refresh() is False
    before = path.stat()
    with path.open("r+") as file:
        file.write("third")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert authorization.headers() == bearer("first")
    assert authorization.refresh() is True
    assert authorization.headers() == bearer("third")


@pytest.mark.parametrize("content", ["", " \n", "half a\ntoken", None])
def test_a_bad_moment(path: Path, content: str | None) -> None:
    """A file that is gone, empty or half written leaves the token that was read before."""
    authorization = Authorization(TokenFile(str(path)))
    authorization.headers()
    if content is None:
        path.unlink()
    else:
        replace(path, content)
    assert authorization.headers() == bearer("first")
    assert authorization.refresh() is False
    replace(path, "second")
    assert authorization.headers() == bearer("second")


def test_no_token_yet(tmp_path: Path) -> None:
    """Without any token the request goes out bare, and the apiserver's 401 tells."""
    assert Authorization(TokenFile(str(tmp_path / "none"))).headers() == {}
