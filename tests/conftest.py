"""What every test stands on: the anyio backend and how hard hypothesis tries."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import senro.domain

# `make test` draws a modest number of examples from a fixed seed; `make soak` sets SENRO_TEST_PROFILE=soak, and
# SENRO_TEST_PROFILE=fuzz is for one file at a time: twenty thousand examples of each of its properties.
settings.register_profile(
    "test", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", deadline=None, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("SENRO_TEST_PROFILE", "test"))


NO_BUBBLEWRAP = "bubblewrap cannot run"
"""How the reason begins for which a test of the mark `bubblewrap` is skipped."""


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio is what httpx, and so senro, runs on."""
    return "asyncio"


ROOT = Path(__file__).parent
TRACED = tuple(
    ROOT / path
    for path in (
        "property",
        "unit/domain",
        "unit/cli",
        "unit/adapters",
        "unit/app/pod/test_compression.py",
        "unit/app/pod/test_observer_events.py",
        "contract/test_pod_states.py",
    )
)
"""Tests that count for the coverage of the domain. They cover every branch; tracing the others would take minutes."""

TRACED_EXAMPLES = 10
"""Examples of a property that count. A traced function takes twice as long, and more examples reach no other branch."""


def tracer(config: pytest.Config) -> Any:
    """Return pytest-cov's controller, which can pause and resume the tracer, or None if this run measures nothing."""
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Trace the import of each module of the domain, and then nothing until the first test that counts."""
    if coverage := tracer(session.config):
        for module in pkgutil.walk_packages(senro.domain.__path__, "senro.domain."):
            importlib.import_module(module.name)
        coverage.pause()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test of `TRACED`, and of a property the first examples."""
    coverage = tracer(item.config)
    if coverage is None or not any(item.path.is_relative_to(path) for path in TRACED):
        return (yield)
    coverage.resume()
    try:
        with first_examples_only(getattr(getattr(item, "obj", None), "hypothesis", None), coverage):
            return (yield)
    finally:
        coverage.pause()


@contextmanager
def first_examples_only(property_handle: Any, coverage: Any) -> Iterator[None]:
    """Pause `coverage` after the first examples of a property. A test that is none has None as its handle."""
    if property_handle is None:
        yield
        return
    inner, examples = property_handle.inner_test, count()

    @functools.wraps(inner)
    def counted(*arguments: object, **drawn: object) -> object:
        if next(examples) == TRACED_EXAMPLES:
            coverage.pause()
        return inner(*arguments, **drawn)

    property_handle.inner_test = counted
    try:
        yield
    finally:
        property_handle.inner_test = inner


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail, where CI is set, what a machine of a user's may skip: nothing is proved by containers that never ran."""
    report = yield
    if os.environ.get("CI") and report.skipped and NO_BUBBLEWRAP in str(report.longrepr):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} has to run where CI is set. {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have recorded as their `summary`, and the sums of their `counts`.

    Workers of pytest-xdist cannot print it themselves. `counts` maps a title to a count by its name.
    """
    sums: dict[str, Counter[str]] = {}
    for reports in (terminalreporter.getreports("passed"), terminalreporter.getreports("failed")):
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "summary":
                    terminalreporter.write_line(str(value))
                elif name == "counts":
                    for title, counted in value.items():
                        sums.setdefault(title, Counter()).update(counted)
    for title, counts in sorted(sums.items()):
        told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        terminalreporter.write_line(f"{title}: {told}")
