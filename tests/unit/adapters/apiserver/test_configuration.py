from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from senro.adapters.apiserver.configuration import (
    KNOWN,
    ClientCertificate,
    Configuration,
    Token,
    TokenFile,
    read_configuration,
)
from senro.domain.errors import ConfigurationError
from tests.lib.fakes.certificates import NOW, Authority, authority, key_pem

TOKEN = "made-up-token-value"


@cache
def ca() -> Authority:
    return authority()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A configuration that is right, with a token."""
    (tmp_path / "ca.crt").write_bytes(ca().cert)
    return {
        "SENRO_K8S_SERVER": "https://10.0.0.1:6443",
        "SENRO_K8S_CA_FILE": str(tmp_path / "ca.crt"),
        "SENRO_K8S_TOKEN": TOKEN,
    }


def refusals(env: dict[str, str]) -> list[tuple[str, str]]:
    """What is refused: the variable and the rule."""
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(env, now=NOW)
    assert TOKEN not in str(caught.value)
    return [(refusal.where, refusal.rule) for refusal in caught.value.refusals]


def words(env: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(env, now=NOW)
    return str(caught.value)


def without(env: dict[str, str], *names: str, **more: str) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names} | more


def test_right(env: dict[str, str]) -> None:
    """A complete configuration is taken as it is, and other variables do not matter."""
    configuration = read_configuration({**env, "KUBECONFIG": "/x", "HTTPS_PROXY": "http://nowhere"}, now=NOW)
    assert configuration == Configuration(
        server="https://10.0.0.1:6443", ca=ca().cert.decode(), credential=Token(TOKEN), proxy=None
    )


def test_no_secret_in_a_repr(env: dict[str, str]) -> None:
    """Neither the token nor a proxy's password can be seen in the repr."""
    configuration = read_configuration({**env, "SENRO_K8S_PROXY": "http://me:made-up-pass@proxy:3128"}, now=NOW)
    assert TOKEN not in repr(configuration)
    assert "made-up-pass" not in repr(configuration)


def test_everything_missing_is_told_at_once() -> None:
    """With nothing set each missing variable is named, and what could be set instead of a token file."""
    assert refusals({}) == [
        ("SENRO_K8S_SERVER", "missing"),
        ("SENRO_K8S_CA_FILE", "missing"),
        ("SENRO_K8S_TOKEN_FILE", "missing"),
    ]
    assert "SENRO_K8S_CLIENT_CERT_FILE with SENRO_K8S_CLIENT_KEY_FILE" in words({})


def test_empty_counts_as_missing(env: dict[str, str]) -> None:
    """An empty value, or one of blanks, is the same as no value."""
    assert refusals({**env, "SENRO_K8S_SERVER": "", "SENRO_K8S_TOKEN": " "}) == [
        ("SENRO_K8S_SERVER", "missing"),
        ("SENRO_K8S_TOKEN_FILE", "missing"),
    ]
    assert read_configuration({**env, "SENRO_K8S_TOKEN_FILE": ""}, now=NOW).credential == Token(TOKEN)


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        ("http://10.0.0.1:6443", "scheme"),
        ("10.0.0.1:6443", "scheme"),
        ("apiserver", "scheme"),
        ("HTTP://x", "scheme"),
        ("https:/x", "scheme"),
        ("https://", "url"),
        ("https://user:made-up-pass@10.0.0.1", "userinfo"),
        ("https://user@10.0.0.1", "userinfo"),
        ("https://10.0.0.1/?x=1", "query"),
        ("https://10.0.0.1/?", "query"),
        ("https://10.0.0.1/#x", "query"),
        ("https://10.0.0.1:port", "url"),
        ("https://10.0.0.1:99999", "url"),
        ("https://[::1", "url"),
        ("https://[nonsense]:6443", "url"),
        ("https://10.0.0.1 /x", "url"),
    ],
)
def test_server_is_refused(env: dict[str, str], server: str, rule: str) -> None:
    """Only https with a host, and no credential, query or fragment; a value that may hold a password is not quoted."""
    env = {**env, "SENRO_K8S_SERVER": server}
    assert refusals(env) == [("SENRO_K8S_SERVER", rule)]
    assert "made-up-pass" not in words(env)


@pytest.mark.parametrize(
    ("server", "kept", "address"),
    [
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("https://[::1]", "https://[::1]", "https://[::1]"),
        ("https://apiserver.example/", "https://apiserver.example", "https://apiserver.example"),
        (
            "https://rancher.example/k8s/clusters/c-1/",
            "https://rancher.example/k8s/clusters/c-1",
            "https://rancher.example",
        ),
    ],
)
def test_server_is_taken(env: dict[str, str], server: str, kept: str, address: str) -> None:
    """IPv6 literals work, and so does a path before the API's own."""
    configuration = read_configuration({**env, "SENRO_K8S_SERVER": server}, now=NOW)
    assert (configuration.server, configuration.address) == (kept, address)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "unreadable"),
        (b"", "no-certificate"),
        (b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n", "no-certificate"),
        (b"\x00\xff", "no-certificate"),
    ],
)
def test_ca_file(env: dict[str, str], tmp_path: Path, content: bytes | None, rule: str) -> None:
    """A CA file that is missing, empty or no certificate is named with its path."""
    path = tmp_path / "bundle"
    if content is not None:
        path.write_bytes(content)
    env = {**env, "SENRO_K8S_CA_FILE": str(path)}
    assert refusals(env) == [("SENRO_K8S_CA_FILE", rule)]
    assert str(path) in words(env)


def test_a_folder_is_no_file(env: dict[str, str], tmp_path: Path) -> None:
    """The operating system's own reason is told."""
    assert "Is a directory" in words({**env, "SENRO_K8S_CA_FILE": str(tmp_path)})


def test_a_path_with_a_nul(env: dict[str, str]) -> None:
    """A path that no system can open is refused like any other that cannot be read."""
    assert refusals({**env, "SENRO_K8S_CA_FILE": "/a\0b"}) == [("SENRO_K8S_CA_FILE", "unreadable")]


def test_ca_that_expired(env: dict[str, str], tmp_path: Path) -> None:
    """A bundle whose every certificate has expired is refused with the moment; one that is valid saves it."""
    old = authority(end=NOW - timedelta(days=1))
    path = tmp_path / "old"
    path.write_bytes(old.cert)
    assert "expired at 2026-11-28T12:00:00+00:00" in words({**env, "SENRO_K8S_CA_FILE": str(path)})
    path.write_bytes(old.cert + ca().cert)
    read_configuration({**env, "SENRO_K8S_CA_FILE": str(path)}, now=NOW)


@pytest.mark.parametrize(
    "given",
    [
        ["SENRO_K8S_TOKEN", "SENRO_K8S_TOKEN_FILE"],
        ["SENRO_K8S_TOKEN_FILE", "SENRO_K8S_CLIENT_CERT_FILE", "SENRO_K8S_CLIENT_KEY_FILE"],
        ["SENRO_K8S_TOKEN", "SENRO_K8S_CLIENT_CERT_FILE", "SENRO_K8S_CLIENT_KEY_FILE"],
    ],
)
def test_contradictory_credentials(env: dict[str, str], tmp_path: Path, given: list[str]) -> None:
    """More than one credential is refused, and each one that is set is named."""
    pair = ca().issue("senro")
    files = {"SENRO_K8S_TOKEN_FILE": TOKEN.encode()}
    files |= {"SENRO_K8S_CLIENT_CERT_FILE": pair.cert, "SENRO_K8S_CLIENT_KEY_FILE": pair.key}
    env = without(env, "SENRO_K8S_TOKEN")
    for name in given:
        (tmp_path / name).write_bytes(files.get(name, b""))
        env[name] = TOKEN if name == "SENRO_K8S_TOKEN" else str(tmp_path / name)
    assert [rule for _, rule in refusals(env)] == ["contradiction"]
    assert all(name in words(env) for name in given)


@pytest.mark.parametrize(
    ("content", "rule"),
    [(None, "unreadable"), (b" \n", "empty"), (b"made-up\nlines\n", "token"), ("ü".encode(), "token")],
)
def test_token_file(env: dict[str, str], tmp_path: Path, content: bytes | None, rule: str) -> None:
    """A token file must hold one token; whatever it holds is not quoted."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    env = without(env, "SENRO_K8S_TOKEN", SENRO_K8S_TOKEN_FILE=str(path))
    assert refusals(env) == [("SENRO_K8S_TOKEN_FILE", rule)]
    assert "made-up" not in words(env)


def test_token_file_is_taken(env: dict[str, str], tmp_path: Path) -> None:
    """The path is kept and not the token, which changes."""
    path = tmp_path / "token"
    path.write_bytes(f"{TOKEN}\n".encode())
    env = without(env, "SENRO_K8S_TOKEN", SENRO_K8S_TOKEN_FILE=str(path))
    assert read_configuration(env, now=NOW).credential == TokenFile(str(path))


@pytest.mark.parametrize("token", ["two words", "bad\ntoken", "tökn"])
def test_token(env: dict[str, str], token: str) -> None:
    """A token that cannot stand in a header is refused and not quoted."""
    env = {**env, "SENRO_K8S_TOKEN": token}
    assert refusals(env) == [("SENRO_K8S_TOKEN", "token")]
    assert token not in words(env)


def test_client_certificate(env: dict[str, str], tmp_path: Path) -> None:
    """A certificate with its key is a credential."""
    files = write_pair(tmp_path, ca().issue("senro").cert, None)
    pair = ca().issue("senro")
    files = write_pair(tmp_path, pair.cert, pair.key)
    configuration = read_configuration(without(env, "SENRO_K8S_TOKEN", **files), now=NOW)
    assert configuration.credential == ClientCertificate(*files.values())


def write_pair(folder: Path, cert: bytes | None, key: bytes | None) -> dict[str, str]:
    paths = {"SENRO_K8S_CLIENT_CERT_FILE": folder / "cert.pem", "SENRO_K8S_CLIENT_KEY_FILE": folder / "key.pem"}
    for path, content in zip(paths.values(), (cert, key), strict=True):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
    return {name: str(path) for name, path in paths.items()}


def pairs() -> list[Any]:
    cert, key = "SENRO_K8S_CLIENT_CERT_FILE", "SENRO_K8S_CLIENT_KEY_FILE"
    good, other = ca().issue("senro"), ca().issue("other")
    old = ca().issue("senro", end=NOW - timedelta(days=1))
    early = ca().issue("senro", start=NOW + timedelta(days=1))
    locked = key_pem(ec.generate_private_key(ec.SECP256R1()), b"made-up-pass")
    return [
        pytest.param(good.cert, other.key, [(key, "mismatch")], id="mismatch"),
        pytest.param(old.cert, old.key, [(cert, "expired")], id="expired"),
        pytest.param(early.cert, early.key, [(cert, "not-yet-valid")], id="early"),
        pytest.param(old.cert, other.key, [(cert, "expired"), (key, "mismatch")], id="expired and mismatch"),
        pytest.param(good.cert, locked, [(key, "encrypted-key")], id="encrypted"),
        pytest.param(good.cert, b"", [(key, "no-key")], id="no key"),
        pytest.param(b"", good.key, [(cert, "no-certificate")], id="no certificate"),
        pytest.param(b"x", b"x", [(cert, "no-certificate"), (key, "no-key")], id="neither"),
        pytest.param(good.cert, None, [(key, "unreadable")], id="key unreadable"),
        pytest.param(None, None, [(cert, "unreadable"), (key, "unreadable")], id="both unreadable"),
    ]


@pytest.mark.parametrize(("cert", "key", "expected"), pairs())
def test_client_certificate_is_refused(
    env: dict[str, str], tmp_path: Path, cert: bytes | None, key: bytes | None, expected: list[tuple[str, str]]
) -> None:
    """Every problem of a certificate and its key is found, each under the variable that it is about."""
    files = write_pair(tmp_path, cert, key)
    assert refusals(without(env, "SENRO_K8S_TOKEN", **files)) == expected


def test_half_a_pair(env: dict[str, str], tmp_path: Path) -> None:
    """A certificate without a key, or a key without a certificate, names the one that is missing."""
    pair = ca().issue("senro")
    files = write_pair(tmp_path, pair.cert, pair.key)
    for missing in files:
        half = {name: path for name, path in files.items() if name != missing}
        assert refusals(without(env, "SENRO_K8S_TOKEN", **half)) == [(missing, "missing")]


@pytest.mark.parametrize(
    ("proxy", "rule"),
    [
        ("socks5://proxy:1080", "scheme"),
        ("proxy:3128", "scheme"),
        ("http://", "url"),
        ("http://proxy/path", "query"),
        ("http://proxy:3128?x", "query"),
    ],
)
def test_proxy_is_refused(env: dict[str, str], proxy: str, rule: str) -> None:
    """A proxy is a URL of http or https that ends at the port."""
    assert refusals({**env, "SENRO_K8S_PROXY": proxy}) == [("SENRO_K8S_PROXY", rule)]


def test_proxy_is_taken(env: dict[str, str]) -> None:
    """A proxy may carry its own credential."""
    proxy = "http://me:made-up-pass@proxy:3128/"
    assert read_configuration({**env, "SENRO_K8S_PROXY": proxy}, now=NOW).proxy == proxy.rstrip("/")


def test_unknown_variables(env: dict[str, str]) -> None:
    """A misspelt variable is refused with the one that was meant, any other with those that there are."""
    text = words({**env, "SENRO_K8S_TOKENFILE": "x", "SENRO_K8S_KUBECONFIG_PATH_OF_MINE": "x"})
    assert "SENRO_K8S_TOKENFILE: no such setting; did you mean SENRO_K8S_TOKEN_FILE?" in text
    assert f"SENRO_K8S_KUBECONFIG_PATH_OF_MINE: no such setting; senro reads {', '.join(KNOWN)}" in text
