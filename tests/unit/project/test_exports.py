from __future__ import annotations

import importlib
import pkgutil
import types

import pytest

import senro
import senro.errors
import senro.k8s
import senro.retry
import senro.secret
from senro.domain import errors


def test_every_public_name_exists() -> None:
    """Each name of `__all__` resolves, to the same object each time."""
    for name in senro.__all__:
        assert getattr(senro, name) is getattr(senro, name)


def test_dir() -> None:
    """`dir(senro)` is `__all__`, sorted and without duplicates."""
    assert dir(senro) == sorted(senro.__all__)
    assert len(set(senro.__all__)) == len(senro.__all__)


def test_lazy_names_are_the_public_ones() -> None:
    """Each lazy name is public, and each public name is lazy or defined in the module."""
    lazy = senro._MODULES | senro._HOMES.keys()
    assert lazy | {"__version__"} == set(senro.__all__)


@pytest.mark.parametrize("name", sorted(senro._HOMES))
def test_a_lazy_name_is_the_object_of_its_module(name: str) -> None:
    """Each object has the same name in its own module."""
    found = getattr(senro, name)
    assert found is getattr(importlib.import_module(senro._HOMES[name]), name)
    assert found.__name__ == name
    assert found.__doc__


@pytest.mark.parametrize("name", sorted(senro._MODULES))
def test_a_lazy_module(name: str) -> None:
    """The four public modules are imported on first use, and define `__all__`."""
    module = getattr(senro, name)
    assert isinstance(module, types.ModuleType)
    assert sorted(module.__all__) == list(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_an_unknown_name() -> None:
    """It raises AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="module 'senro' has no attribute 'nothing'"):
        senro.nothing  # noqa: B018 - that is what is tried


def test_every_error_is_public() -> None:
    """`senro.errors` has all errors and values of the domain's errors, and nothing else."""
    own = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__ and not name.startswith("_")
    }
    assert set(senro.errors.__all__) == own


def test_only_public_modules_are_at_the_root() -> None:
    """There is no other module next to them."""
    modules = {module.name for module in pkgutil.iter_modules(senro.__path__) if not module.ispkg}
    assert {name for name in modules if not name.startswith("_")} == senro._MODULES
