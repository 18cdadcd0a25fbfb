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
    """A file is read byte for byte, a variable with all of its bytes, a value is returned as it is."""
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
    """A secret without a reference is read from `SENRO_SECRET_<NAME>`; a reference takes precedence."""
    environ = {"SENRO_SECRET_KUBE_CONFIG": "from the environment"}
    assert await ReferencedSecrets({}, environ).read("Kube-Config") == b"from the environment"
    source = ReferencedSecrets({"Kube-Config": secret.value("from the program")}, environ)
    assert await source.read("Kube-Config") == b"from the program"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("Kubeconfig", "KUBECONFIG"), ("kube.config-2", "KUBE_CONFIG_2"), ("A_b", "A_B"), ("...x", "___X")],
)
def test_the_name_of_the_variable(name: str, variable: str) -> None:
    """The variable's name is in upper case, with `_` for all characters but letters and digits."""
    assert variable_name(name) == f"SENRO_SECRET_{variable}"


async def test_missing_variable_is_refused_with_its_fix() -> None:
    """A variable that is missing or empty, as CI systems pass missing values, is refused with its fix."""
    fix = "set SENRO_SECRET_TOKEN, or pass secrets={'Token': senro.secret.file(...)} to the run"
    wanted = ("secret Token", "missing", f"the variable SENRO_SECRET_TOKEN is not set; {fix}")
    assert await refusal(None) == wanted
    assert await refusal(None, {"SENRO_SECRET_TOKEN": ""}) == wanted
    where, rule, message = await refusal(VariableSecret("OTHER"))
    assert (where, rule) == ("secret Token", "missing")
    assert message.startswith("the variable OTHER is not set; set OTHER, ")


async def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    """The refusal has the path and the system's message, also for a folder and an invalid path."""
    gone = tmp_path / "gone"
    assert await refusal(FileSecret(str(gone))) == (
        "secret Token",
        "unreadable",
        f"its file {gone} cannot be read: No such file or directory",
    )
    assert (await refusal(FileSecret(str(tmp_path))))[2].endswith("cannot be read: Is a directory")
    assert (await refusal(FileSecret("a\0b")))[1] == "unreadable"


async def test_too_large_value_is_refused(tmp_path: Path) -> None:
    """A value of more than a MiB is refused, whatever its source; an endless file is not read further."""
    path = tmp_path / "large"
    path.write_bytes(bytes(LARGEST))
    assert len(await ReferencedSecrets({"Token": FileSecret(str(path))}, {}).read("Token")) == LARGEST
    message = f"it has more than {LARGEST} bytes, the limit of a Secret"
    for reference in (FileSecret("/dev/zero"), ValueSecret(bytes(LARGEST + 1))):
        assert await refusal(reference) == ("secret Token", "size", message)


async def test_repr_shows_no_value() -> None:
    """The repr of the source and of a reference shows no value."""
    references = {"Token": secret.value("hunter2hunter2")}
    assert repr(ReferencedSecrets(references, {"X": "hunter2hunter2"})) == "<ReferencedSecrets ['Token']>"
    assert "hunter2" not in repr(references)
