"""The rules for environment variables and secrets."""

from __future__ import annotations

from senro.domain.kube.names import OWN_VARIABLES, SUBDOMAIN_BYTES, is_secret_key, is_variable
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote


def read_environment(value: object, what: str, reader: FieldReader) -> dict[str, str]:
    """The variables and their values, without those that are refused."""
    found = {}
    for name, text in reader.mapping(value, what).items():
        if not _is_refused(name, what, reader):
            found[name] = _read_value(text, f"{what}[{quote(name)}]", reader)
    return found


def read_secrets(value: object, reader: FieldReader) -> dict[str, str]:
    """The variables for the paths of secrets, with the secrets' names, without those that are refused."""
    found = {}
    for variable, name in reader.mapping(value, "secrets").items():
        refused = _is_refused(variable, "secrets", reader)
        what = f"secrets[{quote(variable)}]"
        text = reader.text_or_none(name, what)
        if text is None:
            continue
        if not is_secret_key(text):
            reader.refuse(
                "secret-name",
                f"{what} names the secret {quote(text)}; a name is 1 to {SUBDOMAIN_BYTES} letters, digits, `-`, `_` "
                "and `.`, not beginning with `..`",
            )
        elif not refused:
            found[variable] = text
    return found


def refuse_overlap(target: dict[str, str], step: dict[str, str], secrets: dict[str, str], reader: FieldReader) -> None:
    """Refuses each variable that would have both a value and the path of a secret."""
    for variable in secrets:
        if variable in step or variable in target:
            place = "env" if variable in step else "env of its target"
            reader.refuse(
                "secret-variable", f"the variable {variable} is set by secrets and by {place}; rename one of the two"
            )


def _is_refused(name: str, what: str, reader: FieldReader) -> bool:
    if name.startswith(OWN_VARIABLES):
        reader.refuse(
            "env-reserved", f"{what} sets {quote(name)}; names that begin with SENRO_ are reserved for senro; rename it"
        )
        return True
    if not is_variable(name):
        reader.refuse(
            "env-name",
            f"{what} sets {quote(name)}; a name is letters, digits, `_`, `-` and `.`, not beginning with a digit or "
            "`..`; rename it",
        )
        return True
    return False


def _read_value(value: object, what: str, reader: FieldReader) -> str:
    if is_instance(value, str):
        return reader.text(value, what)
    reader.refuse("env-value", f"{what} is {quote(value)}; write text, in quotes")
    return "x"
