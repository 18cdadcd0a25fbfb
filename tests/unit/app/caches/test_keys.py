"""The keys of a plan's caches, evaluated on a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from senro.adapters.fs import FolderKeyFiles
from senro.app.caches.keys import evaluate_keys
from senro.domain.caches.key import CacheKeys, hash_of
from senro.domain.errors import ConfigurationError
from senro.domain.pipeline.workspace import ScratchCache
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from tests.lib.archives.files import digest_of
from tests.lib.fakes.ledger import RUN_ID

pytestmark = pytest.mark.anyio


def plan_of(*caches: ScratchCache) -> Plan:
    """A plan with a step that mounts the caches."""
    pipeline = Pipeline("p")
    pipeline.workflow("w").step("s", ["true"], mounts=[cache.at(f"/{cache.name}") for cache in caches])
    return pipeline.build()


def write(folder: Path, *paths: str, content: str = "1") -> None:
    """Create files with this content."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


async def test_calls_are_replaced_by_hashes(tmp_path: Path) -> None:
    """Each call is replaced by the hash of its files, in the key and in restore keys."""
    write(tmp_path, "go.sum")
    write(tmp_path, "a/go.sum", content="2")
    caches = (
        ScratchCache("a", key="a-{{ hash_files('go.sum') }}", restore_keys=["a-", "b-{{ hash_files('a') }}-"]),
        ScratchCache("b", key="plain"),
    )
    one, two = hash_of({"go.sum": digest_of(b"1")}), hash_of({"a/go.sum": digest_of(b"2")})
    assert await evaluate_keys(plan_of(*caches), FolderKeyFiles(), str(tmp_path), "runs") == {
        "a": CacheKeys(f"a-{one}", ("a-", f"b-{two}-")),
        "b": CacheKeys("plain"),
    }


@pytest.mark.parametrize("run_dir", ["runs/deep", "./runs/deep", "absolute"])
async def test_excluded_folders_are_ignored(tmp_path: Path, run_dir: str) -> None:
    """Files of the runs, of `.git` and of `node_modules` are not part of a key."""
    write(tmp_path, "go.sum", "sub/go.sum")
    plan = plan_of(ScratchCache("a", key="{{ hash_files('**/go.sum') }}"))
    run_dir = str(tmp_path / "runs" / "deep") if run_dir == "absolute" else run_dir
    before = await evaluate_keys(plan, FolderKeyFiles(), str(tmp_path), run_dir)
    write(tmp_path, "runs/deep/r/go.sum", "node_modules/go.sum", "sub/node_modules/m/go.sum", "sub/.git/go.sum")
    assert await evaluate_keys(plan, FolderKeyFiles(), str(tmp_path), run_dir) == before
    assert await evaluate_keys(plan, FolderKeyFiles(), str(tmp_path), "../other") != before


@pytest.mark.parametrize("run_dir", [".", "absolute", "../{}"])
async def test_run_folders_among_the_files_are_ignored(tmp_path: Path, run_dir: str) -> None:
    """Folders of runs among the files are not part of a key, however the run directory is written."""
    write(tmp_path, "go.sum", "sub/go.sum")
    plan = plan_of(ScratchCache("a", key="{{ hash_files('**/go.sum') }}"))
    run_dir = str(tmp_path) if run_dir == "absolute" else run_dir.format(tmp_path.name)
    before = await evaluate_keys(plan, FolderKeyFiles(), str(tmp_path), run_dir)
    write(tmp_path, f"{RUN_ID}/workspaces/src/go.sum")
    assert await evaluate_keys(plan, FolderKeyFiles(), str(tmp_path), run_dir) == before


async def test_folder_is_read_once(tmp_path: Path) -> None:
    """The folder is read once for all caches; a key depends on the files of its own calls only."""
    write(tmp_path, "go.sum")
    write(tmp_path, "a/go.sum", content="2")
    reads: list[tuple[str, ...]] = []

    class Counting(FolderKeyFiles):
        async def digests(self, folder: str, patterns: Sequence[str], *, exclude: Sequence[str]) -> Mapping[str, str]:
            reads.append(tuple(patterns))
            return await super().digests(folder, patterns, exclude=exclude)

    caches = (
        ScratchCache("a", key="{{ hash_files('go.sum') }}", restore_keys=["a-", "{{ hash_files('a', '*.sum') }}"]),
        ScratchCache("b", key="{{ hash_files('a') }}{{ hash_files('go.sum') }}"),
    )
    keys = await evaluate_keys(plan_of(*caches), Counting(), str(tmp_path), "runs")
    assert reads == [("go.sum", "a", "*.sum")]
    one, two = hash_of({"go.sum": digest_of(b"1")}), hash_of({"a/go.sum": digest_of(b"2")})
    both = hash_of({"go.sum": digest_of(b"1"), "a/go.sum": digest_of(b"2")})
    assert keys == {"a": CacheKeys(one, ("a-", both)), "b": CacheKeys(two + one)}


async def test_keys_without_files_read_no_folder(tmp_path: Path) -> None:
    """Without a call of `hash_files` no folder is read."""
    keys = await evaluate_keys(plan_of(ScratchCache("a", key="k")), FolderKeyFiles(), str(tmp_path / "gone"), "runs")
    assert keys == {"a": CacheKeys("k")}


async def test_one_matching_pattern_is_enough(tmp_path: Path) -> None:
    """Of several patterns of one call one has to match: projects have one of several lock files."""
    write(tmp_path, "yarn.lock")
    cache = ScratchCache("a", key="{{ hash_files('package-lock.json', 'yarn.lock') }}")
    keys = await evaluate_keys(plan_of(cache), FolderKeyFiles(), str(tmp_path), "runs")
    assert keys["a"].key == hash_of({"yarn.lock": digest_of(b"1")})


async def test_calls_without_files_are_refused(tmp_path: Path) -> None:
    """Each call that matches no file is refused once, with the first cache that has it; so is an unreadable file."""
    (tmp_path / "circle").symlink_to("circle")
    caches = (
        ScratchCache("a", key="{{ hash_files('go.sum') }}", restore_keys=["{{ hash_files('*.lock') }}"]),
        ScratchCache("b", key="{{ hash_files('go.sum') }}{{ hash_files('circle') }}"),
    )
    with pytest.raises(ConfigurationError) as caught:
        await evaluate_keys(plan_of(*caches), FolderKeyFiles(), str(tmp_path), "runs")
    found = [(refusal.where, refusal.rule, refusal.message) for refusal in caught.value.refusals]
    assert [(where, rule) for where, rule, _ in found] == [
        ("scratch cache a", "scratch-files"),
        ("scratch cache a", "scratch-files"),
        ("scratch cache b", "scratch-files"),
    ]
    assert [message.partition(";")[0] for _, _, message in found] == [
        f"no file of {tmp_path} matches hash_files('go.sum')",
        f"no file of {tmp_path} matches hash_files('*.lock')",
        "hash_files('circle') cannot be evaluated: circle: it cannot be read: Too many levels of symbolic links",
    ]
