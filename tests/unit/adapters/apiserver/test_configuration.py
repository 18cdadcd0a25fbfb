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
    """A valid configuration with a token."""
    (tmp_path / "ca.crt").write_bytes(ca().cert)
    return {
        "SENRO_K8S_SERVER": "https://10.0.0.1:6443",
        "SENRO_K8S_CA_FILE": str(tmp_path / "ca.crt"),
        "SENRO_K8S_TOKEN": TOKEN,
    }


def refusals(env: dict[str, str]) -> list[tuple[str, str]]:
    """Returns the variable and the rule of each refusal."""
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


def test_valid_configuration(env: dict[str, str]) -> None:
    """A complete configuration is returned unchanged, and other variables have no effect."""
    configuration = read_configuration({**env, "KUBECONFIG": "/x", "HTTPS_PROXY": "http://nowhere"}, now=NOW)
    assert configuration == Configuration(
        server="https://10.0.0.1:6443", ca=ca().cert.decode(), credential=Token(TOKEN), proxy=None
    )


def test_no_secret_in_a_repr(env: dict[str, str]) -> None:
    """The repr shows neither the token nor the password of a proxy."""
    configuration = read_configuration({**env, "SENRO_K8S_PROXY": "http://me:made-up-pass@proxy:3128"}, now=NOW)
    assert TOKEN not in repr(configuration)
    assert "made-up-pass" not in repr(configuration)


def test_all_missing_variables_are_refused_at_once() -> None:
    """Every missing variable is named, with the alternatives to a token file."""
    assert refusals({}) == [
        ("SENRO_K8S_SERVER", "missing"),
        ("SENRO_K8S_CA_FILE", "missing"),
        ("SENRO_K8S_TOKEN_FILE", "missing"),
    ]
    assert "SENRO_K8S_CLIENT_CERT_FILE with SENRO_K8S_CLIENT_KEY_FILE" in words({})


def test_empty_value_counts_as_missing(env: dict[str, str]) -> None:
    """An empty value and one of blanks count as missing."""
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
def test_refused_servers(env: dict[str, str], server: str, rule: str) -> None:
    """The server must be an https URL with a host, without user, query and fragment; the message does not quote it."""
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
def test_accepted_servers(env: dict[str, str], server: str, kept: str, address: str) -> None:
    """The server may have an IPv6 address, and a path before that of the API."""
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
def test_refused_ca_files(env: dict[str, str], tmp_path: Path, content: bytes | None, rule: str) -> None:
    """A CA file that is missing, empty or not a certificate is refused with its path."""
    path = tmp_path / "bundle"
    if content is not None:
        path.write_bytes(content)
    env = {**env, "SENRO_K8S_CA_FILE": str(path)}
    assert refusals(env) == [("SENRO_K8S_CA_FILE", rule)]
    assert str(path) in words(env)


def test_folder_in_place_of_a_file(env: dict[str, str], tmp_path: Path) -> None:
    """The refusal has the text of the operating system."""
    assert "Is a directory" in words({**env, "SENRO_K8S_CA_FILE": str(tmp_path)})


def test_path_with_a_nul(env: dict[str, str]) -> None:
    """A path that no operating system can open is refused as unreadable."""
    assert refusals({**env, "SENRO_K8S_CA_FILE": "/a\0b"}) == [("SENRO_K8S_CA_FILE", "unreadable")]


def test_expired_ca(env: dict[str, str], tmp_path: Path) -> None:
    """A bundle of expired certificates is refused with the time; one valid certificate is enough."""
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
def test_contradictory_credentials_are_refused(env: dict[str, str], tmp_path: Path, given: list[str]) -> None:
    """The refusal of two or more credentials names each of them."""
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
def test_refused_token_files(env: dict[str, str], tmp_path: Path, content: bytes | None, rule: str) -> None:
    """A token file must contain one token; the message does not quote it."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    env = without(env, "SENRO_K8S_TOKEN", SENRO_K8S_TOKEN_FILE=str(path))
    assert refusals(env) == [("SENRO_K8S_TOKEN_FILE", rule)]
    assert "made-up" not in words(env)


def test_accepted_token_file(env: dict[str, str], tmp_path: Path) -> None:
    """The configuration has the path and not the token, which changes."""
    path = tmp_path / "token"
    path.write_bytes(f"{TOKEN}\n".encode())
    env = without(env, "SENRO_K8S_TOKEN", SENRO_K8S_TOKEN_FILE=str(path))
    assert read_configuration(env, now=NOW).credential == TokenFile(str(path))


@pytest.mark.parametrize("token", ["two words", "bad\ntoken", "tökn"])
def test_refused_tokens(env: dict[str, str], token: str) -> None:
    """A token that an Authorization header cannot carry is refused, and the message does not quote it."""
    env = {**env, "SENRO_K8S_TOKEN": token}
    assert refusals(env) == [("SENRO_K8S_TOKEN", "token")]
    assert token not in words(env)


def test_accepted_client_certificate(env: dict[str, str], tmp_path: Path) -> None:
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
def test_refused_client_certificates(
    env: dict[str, str], tmp_path: Path, cert: bytes | None, key: bytes | None, expected: list[tuple[str, str]]
) -> None:
    """Every problem of a certificate and its key is reported under the variable of its file."""
    files = write_pair(tmp_path, cert, key)
    assert refusals(without(env, "SENRO_K8S_TOKEN", **files)) == expected


def test_certificate_without_a_key(env: dict[str, str], tmp_path: Path) -> None:
    """A certificate without a key, or a key without a certificate, is refused with the name of the missing variable."""
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
def test_refused_proxies(env: dict[str, str], proxy: str, rule: str) -> None:
    """A proxy is a URL of http or https that ends at the port."""
    assert refusals({**env, "SENRO_K8S_PROXY": proxy}) == [("SENRO_K8S_PROXY", rule)]


def test_accepted_proxy(env: dict[str, str]) -> None:
    """The URL of a proxy may have a user and a password."""
    proxy = "http://me:made-up-pass@proxy:3128/"
    assert read_configuration({**env, "SENRO_K8S_PROXY": proxy}, now=NOW).proxy == proxy.rstrip("/")


def test_unknown_variables_are_refused(env: dict[str, str]) -> None:
    """A misspelt variable is refused with the similar one, any other with the list of all."""
    text = words({**env, "SENRO_K8S_TOKENFILE": "x", "SENRO_K8S_KUBECONFIG_PATH_OF_MINE": "x"})
    assert "SENRO_K8S_TOKENFILE: no such setting; did you mean SENRO_K8S_TOKEN_FILE?" in text
    assert f"SENRO_K8S_KUBECONFIG_PATH_OF_MINE: no such setting; senro reads {', '.join(KNOWN)}" in text
