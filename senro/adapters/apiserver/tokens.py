"""The Authorization header, whose bearer token is read again when its file changes."""

from __future__ import annotations

import os

from senro.adapters.apiserver.configuration import FILE_LIMIT, Credential, Token, TokenFile, is_token

_Mark = tuple[int, int, int]


class Authorization:
    """Returns the headers that authenticate a request. Checks each time whether the token file was replaced.

    While the file is missing, empty or incomplete, the token that was read before is used. The file is small and local,
    so it is read without a thread.
    """

    def __init__(self, credential: Credential) -> None:
        self._path = credential.path if isinstance(credential, TokenFile) else None
        self._token = credential.value if isinstance(credential, Token) else ""
        self._mark: _Mark | None = None

    def __repr__(self) -> str:
        return f"<Authorization {'by file' if self._path else 'by token' if self._token else 'by certificate'}>"

    def headers(self) -> dict[str, str]:
        """Returns the headers of a request; none for a client certificate."""
        if self._path is not None:
            mark = _mark(self._path)
            if mark is not None and mark != self._mark:
                self._read(self._path, mark)
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def refresh(self) -> None:
        """Read the file, whether it seems changed or not."""
        if self._path is not None:
            self._read(self._path, _mark(self._path))

    def _read(self, path: str, mark: _Mark | None) -> None:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a path of the environment is opened as it is
                token = file.read(FILE_LIMIT).strip()
        except OSError:
            return
        if is_token(token):
            self._token, self._mark = token.decode("ascii"), mark


def _mark(path: str) -> _Mark | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
