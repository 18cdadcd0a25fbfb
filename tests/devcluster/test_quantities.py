"""Quantities: read exactly, and no larger than anybody can mean."""

from __future__ import annotations

from fractions import Fraction

import pytest

from senro.devcluster.apiserver.quantities import PATTERN, parse_quantity
from tests.lib.harness.devcluster import Client, Object, pod_manifest

NINES = "9" * 5000
TOO_LARGE = [
    "1e999999999",
    "1E-999999999",
    "1e101",
    f"1e{NINES}",
    NINES,
    f"0.{NINES}",
    f"{NINES}Gi",
    f"-{NINES}.{NINES}m",
]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", Fraction(1000)),
        ("1E-3", Fraction(1, 1000)),
        ("1.5Gi", Fraction(3 * 2**29)),
        (".5", Fraction(1, 2)),
        ("+5.", Fraction(5)),
        (3, Fraction(3)),
        (1e22, Fraction(10**22)),
        ("1e100", Fraction(10**100)),
        ("9" * 100, Fraction(10**100 - 1)),
        (None, None),
        (True, None),
        ("", None),
        ("1e", None),
        ("1 Gi", None),
        ("1٣", None),
    ],
)
def test_quantities_are_read_exactly(text: object, number: Fraction | None) -> None:
    """Decimal and binary suffixes, exponents, JSON's own numbers; None for what is no quantity."""
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "value", [*TOO_LARGE, 10**100, -(10**200), 1e308, float("inf"), float("nan")], ids=lambda value: str(value)[:12]
)
def test_what_nobody_can_mean_is_no_quantity(value: object) -> None:
    """Beyond a hundred digits or an exponent of a hundred nothing is computed: a number that long stops everything."""
    assert parse_quantity(value) is None


def test_a_number_too_long_to_be_written() -> None:
    """One that Python itself does not write out is no quantity either."""
    assert parse_quantity(-(10**5000)) is None


def places(amount: str) -> dict[str, tuple[str, Object]]:
    """Every place of the API that takes a quantity from whoever may write there, with that amount."""
    mount = {"name": "v", "emptyDir": {"sizeLimit": amount}}
    return {
        "limits": ("pods", pod_manifest("q", ["true"], step={"resources": {"limits": {"cpu": amount}}})),
        "requests": ("pods", pod_manifest("q", ["true"], step={"resources": {"requests": {"memory": amount}}})),
        "sizeLimit": ("pods", pod_manifest("q", ["true"], volumes=[mount])),
        "storage": (
            "persistentvolumeclaims",
            {
                "metadata": {"name": "q"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}},
            },
        ),
    }


@pytest.mark.parametrize("place", places(""))
@pytest.mark.parametrize("amount", ["1e999999999", NINES, "x"], ids=["exponent", "digits", "letters"])
def test_a_quantity_that_does_not_decode_is_refused(client: Client, place: str, amount: str) -> None:
    """400 in the apiserver's words, wherever it stands; nothing waits for it."""
    plural, document = places(amount)[place]
    admin = {"authorization": f"Bearer {client.cluster.access.admin_token}"}
    answer = client.http.post(f"/api/v1/namespaces/ci/{plural}", json=document, headers=admin)
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].endswith(f"quantities must match the regular expression '{PATTERN}'")
