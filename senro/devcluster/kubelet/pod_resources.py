"""Resources of a whole pod, as its status sums them up (recording oom-killed)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity

if TYPE_CHECKING:
    from senro.devcluster.objects import Object


def pod_resources(spec: Object) -> Object:
    """`limits` and `requests` of all containers together; what only one of them names keeps that one's words."""
    summed: Object = {}
    for kind in ("limits", "requests"):
        amounts: dict[str, list[object]] = {}
        for container in spec["containers"]:
            for name, value in ((container.get("resources") or {}).get(kind) or {}).items():
                amounts.setdefault(name, []).append(value)
        if amounts:
            summed[kind] = {name: _total(name, values) for name, values in sorted(amounts.items())}
    return summed


def _total(name: str, values: list[object]) -> object:
    if len(values) == 1:
        return values[0]
    total = sum((parse_quantity(value) or Fraction(0) for value in values), Fraction(0))
    if name == "cpu":
        return f"{int(total * 1000)}m" if total % 1 else str(int(total))
    for suffix, unit in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if total and total % unit == 0:
            return f"{int(total / unit)}{suffix}"
    return str(int(total))


def whole_number(value: object) -> int | None:
    """A quantity as a whole number of its unit (bytes, cores), or None where it is none."""
    number = parse_quantity(value)
    return None if number is None else int(number)
