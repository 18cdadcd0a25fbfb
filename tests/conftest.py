"""What every test stands on: the anyio backend and how hard hypothesis tries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# `make test` draws a modest number of examples from a fixed seed; `make soak` sets SENRO_TEST_PROFILE=soak, and
# SENRO_TEST_PROFILE=fuzz is for one file at a time: twenty thousand examples of each of its properties.
settings.register_profile(
    "test", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
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
TRACED = (
    *(ROOT / "unit" / name for name in ("adapters", "cli", "domain", "app/pod")),
    ROOT / "property",
    ROOT / "contract" / "test_pod_states.py",
)
"""Tests that count for the coverage of the domain. They cover every branch; tracing the others would take minutes."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop pytest-cov's tracer for a test outside `TRACED`, so that threads of its fixtures are not traced either."""
    coverage = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if coverage is None or any(item.path.is_relative_to(path) for path in TRACED):
        return (yield)
    coverage.pause()
    try:
        return (yield)
    finally:
        coverage.resume()


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
