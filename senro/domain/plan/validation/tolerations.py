"""The rules for tolerations, those of the apiserver's ValidateTolerations (recording `refused`)."""

from __future__ import annotations

from typing import Any, Final

from senro.domain.kube.names import is_label_key, is_label_value
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote

_OPERATORS: Final = ("", "Equal", "Exists")  # those of every supported version
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_SECONDS: Final = "tolerationSeconds"
_FIELDS: Final = ("key", "operator", "value", "effect")
_INT64: Final = 2**63


def read_tolerations(value: object, reader: FieldReader) -> tuple[dict[str, Any], ...]:
    """The tolerations as dicts."""
    return tuple(
        _read_toleration(item, f"entry {place} of tolerations", reader)
        for place, item in enumerate(reader.items(value, "tolerations"))
    )


def _read_toleration(item: object, what: str, reader: FieldReader) -> dict[str, Any]:
    before = len(reader.refusals)
    fields = reader.mapping(item, what)
    if len(reader.refusals) > before:
        return {}
    seconds = fields.pop(_SECONDS, None)
    for name in [name for name in fields if name not in _FIELDS]:
        del fields[name]
        reader.refuse("toleration", f"{what} has {quote(name)}; it may have {', '.join((*_FIELDS, _SECONDS))}")
    found: dict[str, Any] = {name: reader.text(entry, f"{name} of {what}", "") for name, entry in fields.items()}
    if len(reader.refusals) == before:
        for problem in _problems(*(found.get(name, "") for name in _FIELDS), timed=seconds is not None):
            reader.refuse("toleration", f"{what}: {problem}")
    if seconds is not None:
        if is_instance(seconds, int) and not is_instance(seconds, bool) and -_INT64 <= seconds < _INT64:
            found[_SECONDS] = int(seconds)
        else:
            reader.refuse("toleration", f"{_SECONDS} of {what} is {quote(seconds)}; write a whole number")
    return found


def _problems(key: str, operator: str, value: str, effect: str, *, timed: bool) -> list[str]:
    exists = operator == "Exists"
    checks = (
        (not key or is_label_key(key), f"the key {quote(key)} is no label key; write the key of a taint"),
        (
            bool(key) or exists,
            "without a key it matches every taint, which needs operator 'Exists'; write that or a key",
        ),
        (operator in _OPERATORS, f"the operator is {quote(operator)}; write 'Equal' or 'Exists'"),
        (not (exists and value), "operator 'Exists' takes no value; leave the value out"),
        (exists or is_label_value(value), f"the value {quote(value)} is no label value; write the value of a taint"),
        (effect in _EFFECTS, f"the effect is {quote(effect)}; write one of {', '.join(_EFFECTS[1:])}"),
        (not timed or effect == "NoExecute", f"{_SECONDS} counts for effect 'NoExecute' alone; leave it out"),
    )
    return [problem for kept, problem in checks if not kept]
