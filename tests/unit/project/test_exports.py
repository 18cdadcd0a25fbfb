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


def test_every_public_name_is_there() -> None:
    """Each name of `__all__` resolves, and twice to the same thing."""
    for name in senro.__all__:
        assert getattr(senro, name) is getattr(senro, name)


def test_the_names_are_told() -> None:
    """`dir(senro)` is `__all__`, sorted and without a double."""
    assert dir(senro) == sorted(senro.__all__)
    assert len(set(senro.__all__)) == len(senro.__all__)


def test_nothing_else_is_loaded_by_name() -> None:
    """What is loaded lazily is public, and what is public is loaded lazily or stands in the module."""
    lazy = senro._MODULES | senro._HOMES.keys()
    assert lazy | {"__version__"} == set(senro.__all__)


@pytest.mark.parametrize("name", sorted(senro._HOMES))
def test_a_lazy_name_is_the_thing_itself(name: str) -> None:
    """Each comes from its home and is called there what it is called here."""
    found = getattr(senro, name)
    assert found is getattr(importlib.import_module(senro._HOMES[name]), name)
    assert found.__name__ == name
    assert found.__doc__


@pytest.mark.parametrize("name", sorted(senro._MODULES))
def test_a_lazy_module_is_one(name: str) -> None:
    """The four modules of the public face say what they hold."""
    module = getattr(senro, name)
    assert isinstance(module, types.ModuleType)
    assert sorted(module.__all__) == list(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_a_name_that_is_not_there() -> None:
    """As any module says it."""
    with pytest.raises(AttributeError, match="module 'senro' has no attribute 'nothing'"):
        senro.nothing  # noqa: B018 - that is what is tried


def test_every_error_is_public() -> None:
    """`senro.errors` has each error and value of the domain's tree, and nothing else."""
    own = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__ and not name.startswith("_")
    }
    assert set(senro.errors.__all__) == own


def test_the_public_modules_stand_at_the_root() -> None:
    """No other module stands beside them: what is public is found in one place."""
    modules = {module.name for module in pkgutil.iter_modules(senro.__path__) if not module.ispkg}
    assert {name for name in modules if not name.startswith("_")} == senro._MODULES
