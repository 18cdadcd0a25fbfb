"""The rules for a container's `resources` (docs/design/api-rules.md#resources)."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from senro.domain.kube.names import is_label_key
from senro.domain.kube.quantities import parse_quantity
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote

_KINDS: Final = ("requests", "limits")
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"


def read_resources(value: object, what: str, reader: FieldReader) -> dict[str, dict[str, str]]:
    """The resources with their quantities as text, without those that are refused."""
    found: dict[str, dict[str, str]] = {}
    amounts: dict[str, dict[str, Fraction]] = {kind: {} for kind in _KINDS}
    for kind, quantities in reader.mapping(value, what).items():
        if kind not in _KINDS:
            reader.refuse("resources", f"{what} has {quote(kind)}; it may have 'requests' and 'limits'")
            continue
        found[kind] = {}
        for name, quantity in reader.mapping(quantities, f"{what}[{kind!r}]").items():
            here = f"{what}[{kind!r}][{quote(name)}]"
            amount = _read_amount(name, quantity, here, reader)
            if amount is not None:
                found[kind][name], amounts[kind][name] = amount
    _refuse_together(amounts["requests"], amounts["limits"], what, reader)
    return found


def _read_amount(name: str, quantity: object, here: str, reader: FieldReader) -> tuple[str, Fraction] | None:
    if not (name in _NATIVE or (is_label_key(name) and (name.startswith(_HUGE_PAGES) or _is_extended(name)))):
        reader.refuse(
            "resource-name",
            f"{here}: no such resource; write cpu, memory, ephemeral-storage, hugepages-<size> or vendor.example/name",
        )
        return None
    text = _spelled(quantity)
    amount = None if text is None else parse_quantity(text)
    if text is None or amount is None or amount < 0:
        reader.refuse(
            "quantity", f"{here} is {quote(quantity)}, which is not a quantity; write one such as '500m' or '2Gi'"
        )
        return None
    if _is_countable(name) and amount.denominator != 1:
        reader.refuse("quantity", f"{here} is {quote(quantity)}; {name} is not divisible, so write a whole number")
        return None
    return text, amount


def _refuse_together(
    requests: dict[str, Fraction], limits: dict[str, Fraction], what: str, reader: FieldReader
) -> None:
    for name, request in requests.items():
        limit = limits.get(name)
        if _is_countable(name) and limit != request:
            reader.refuse(
                "resource-limit",
                f"{what} must limit {name} to what it requests, since it cannot be overcommitted; make them equal",
            )
        elif limit is not None and request > limit:
            reader.refuse("resource-limit", f"{what} requests more {name} than it limits; raise the limit")


def _spelled(quantity: object) -> str | None:
    """The quantity as text; the apiserver accepts JSON numbers too."""
    if is_instance(quantity, str):
        return str.__str__(quantity)
    if is_instance(quantity, bool):
        return None
    if is_instance(quantity, float):
        return float.__repr__(quantity)
    if is_instance(quantity, int) and quantity.bit_length() <= 64:
        return int.__repr__(quantity)
    return None


def _is_extended(name: str) -> bool:
    """Whether the name is an extended resource: not of Kubernetes' own domain, not beginning with `requests.`."""
    prefix = name.partition("/")[0]
    own = prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    return "/" in name and not own and not name.startswith("requests.")


def _is_countable(name: str) -> bool:
    """Whether limit and request must be equal, and the amount whole: huge pages and extended resources."""
    return name not in _NATIVE
