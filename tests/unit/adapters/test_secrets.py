from __future__ import annotations

import os
from pathlib import Path

import pytest

from senro import secret
from senro.adapters.secrets import LARGEST, ReferencedSecrets, variable_name
from senro.domain.errors import ConfigurationError
from senro.domain.pipeline.secrets import FileSecret, SecretReference, ValueSecret, VariableSecret

pytestmark = pytest.mark.anyio

VALUE = b"made-up \xff\n value\n"


async def refusal(reference: SecretReference | None, environ: dict[str, str] | None = None) -> tuple[str, str, str]:
    source = ReferencedSecrets({} if reference is None else {"Token": reference}, environ or {})
    with pytest.raises(ConfigurationError) as caught:
        await source.read("Token")
    (found,) = caught.value.refusals
    return found.where, found.rule, found.message


async def test_each_reference_gives_its_value(tmp_path: Path) -> None:
    """A file byte for byte, a variable with whatever bytes it has, a value as it is."""
    path = tmp_path / "token"
    path.write_bytes(VALUE)
    references: dict[str, SecretReference] = {
        "File": secret.file(str(path)),
        "Variable": secret.variable("TOKEN"),
        "Value": secret.value(VALUE),
        "Text": secret.value("é"),
        "Empty": secret.value(b""),
    }
    source = ReferencedSecrets(references, {"TOKEN": os.fsdecode(b"caf\xe9")})
    assert await source.read("File") == VALUE
    assert await source.read("Variable") == b"caf\xe9"
    assert await source.read("Value") == VALUE
    assert await source.read("Text") == "é".encode()
    assert await source.read("Empty") == b""


async def test_a_secret_without_a_reference_is_read_from_its_variable() -> None:
    """`SENRO_SECRET_<NAME>`; a reference goes before it."""
    environ = {"SENRO_SECRET_KUBE_CONFIG": "from the environment"}
    assert await ReferencedSecrets({}, environ).read("Kube-Config") == b"from the environment"
    source = ReferencedSecrets({"Kube-Config": secret.value("from the program")}, environ)
    assert await source.read("Kube-Config") == b"from the program"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("Kubeconfig", "KUBECONFIG"), ("kube.config-2", "KUBE_CONFIG_2"), ("A_b", "A_B"), ("...x", "___X")],
)
def test_the_name_of_the_variable(name: str, variable: str) -> None:
    """Upper case, and `_` for what is no letter or digit."""
    assert variable_name(name) == f"SENRO_SECRET_{variable}"


async def test_a_variable_that_is_missing_is_told_with_its_fix() -> None:
    """Not set, or empty, which is how a pipeline of CI passes what it does not have."""
    fix = "set SENRO_SECRET_TOKEN, or pass secrets={'Token': senro.secret.file(...)} to the run"
    wanted = ("secret Token", "missing", f"the variable SENRO_SECRET_TOKEN is not set; {fix}")
    assert await refusal(None) == wanted
    assert await refusal(None, {"SENRO_SECRET_TOKEN": ""}) == wanted
    where, rule, message = await refusal(VariableSecret("OTHER"))
    assert (where, rule) == ("secret Token", "missing")
    assert message.startswith("the variable OTHER is not set; set OTHER, ")


async def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """The path and the system's words; a folder and a path that can be no file as well."""
    gone = tmp_path / "gone"
    assert await refusal(FileSecret(str(gone))) == (
        "secret Token",
        "unreadable",
        f"its file {gone} cannot be read: No such file or directory",
    )
    assert (await refusal(FileSecret(str(tmp_path))))[2].endswith("cannot be read: Is a directory")
    assert (await refusal(FileSecret("a\0b")))[1] == "unreadable"


async def test_what_no_secret_can_hold_is_refused(tmp_path: Path) -> None:
    """More than a MiB, from wherever; a file is not read further than it takes to know, endless ones included."""
    path = tmp_path / "large"
    path.write_bytes(bytes(LARGEST))
    assert len(await ReferencedSecrets({"Token": FileSecret(str(path))}, {}).read("Token")) == LARGEST
    message = f"it has more than {LARGEST} bytes, the limit of a Secret"
    for reference in (FileSecret("/dev/zero"), ValueSecret(bytes(LARGEST + 1))):
        assert await refusal(reference) == ("secret Token", "size", message)


async def test_no_value_shows() -> None:
    """Neither in the source's repr nor in a reference's."""
    references = {"Token": secret.value("hunter2hunter2")}
    assert repr(ReferencedSecrets(references, {"X": "hunter2hunter2"})) == "<ReferencedSecrets ['Token']>"
    assert "hunter2" not in repr(references)
