"""`BucketScratchStore` passes the suite of `ScratchStore`, in a shared folder and on a real object store.

More than 500 lines: all tests share one server, which needs seconds to start.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec
import obstore
import pytest

from senro.adapters.bucket import open_scratch_store, read_location
from senro.adapters.bucket.store import BucketScratchStore
from senro.adapters.fs import FolderTrees
from senro.domain.caches.record import LARGEST, ScratchRecord, decode_record, encode_record
from senro.domain.errors import ConfigurationError, StoreError, StoreUnavailable, TreeError
from senro.domain.tree.tree import Tree
from senro.ports.scratch import ScratchStore
from tests.contract.ports.scratch_suite import ScratchStoreSuite, entry, newest
from tests.contract.ports.trees_suite import SMALL, folder_with
from tests.lib.archives.files import file, make_folder, names, read_folder, tar_member
from tests.lib.harness.object_store import (
    ADMIN,
    READER,
    SECRETS,
    WRITER,
    SeaweedFS,
    breakable_proxy,
    peak_memory,
    reset_peak_memory,
    seaweedfs,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Create = Callable[[str, bytes], Awaitable[bool]]
"""`Bucket.create`."""

_drawn = itertools.count()


def opened(environ: Mapping[str, str]) -> BucketScratchStore:
    """The store that the variables name."""
    location = read_location(environ)
    assert location is not None
    return open_scratch_store(location, environ, trees=FolderTrees(), token=lambda: f"t{next(_drawn)}")


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with seaweedfs(tmp_path_factory.mktemp("seaweed") / "server") as server:
        yield server


@pytest.fixture
def prefix() -> str:
    """A prefix that only one test uses."""
    return f"test/{next(_drawn)}"


class TestFolder(ScratchStoreSuite):
    """`file:///...`."""

    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> ScratchStore:
        self.environ = {"SENRO_REMOTE_SCRATCH": f"file://{tmp_path_factory.mktemp('shared')}"}
        return opened(self.environ)

    @pytest.fixture
    def other(self, store: ScratchStore) -> ScratchStore:
        del store
        return opened(self.environ)


class TestSeaweedFS(ScratchStoreSuite):
    """`s3://...`, on a real store."""

    @pytest.fixture
    def store(self, seaweed: SeaweedFS, prefix: str) -> ScratchStore:
        self.environ = seaweed.environment(prefix)
        return opened(self.environ)

    @pytest.fixture
    def other(self, store: ScratchStore) -> ScratchStore:
        del store
        return opened(self.environ)


def archives(seaweed: SeaweedFS, prefix: str) -> list[str]:
    return [path for path in seaweed.paths(prefix) if path.endswith(".tar")]


async def test_concurrent_saves_leave_one_archive(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Ten coordinators that save one key concurrently leave one record and the archive of its writer."""
    won: list[int] = []

    async def save(number: int) -> None:
        tree = Tree((file("who", str(number).encode()),))
        folder = folder_with(tmp_path / f"x{number}", tree, {"who": str(number).encode()})
        if await opened(seaweed.environment(prefix)).save("c", entry("k"), tree, str(folder)):
            won.append(number)

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(save, number)
    assert len(won) == 1
    assert len(archives(seaweed, prefix)) == 1
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == Tree((file("who", str(won[0]).encode()),))


class InterceptedStore(BucketScratchStore):
    """A store whose put of a record calls a function of the test with the put itself, the path and the data."""

    def intercept(self, how: Callable[[Create, str, bytes], Awaitable[bool]]) -> None:
        create = self._bucket.create

        async def intercepted(path: str, data: bytes) -> bool:
            return await how(create, path, data)

        self._bucket.create = intercepted  # type: ignore[method-assign]  # it replaces one answer of a real store


def intercepted_store(environ: Mapping[str, str]) -> InterceptedStore:
    return InterceptedStore(opened(environ)._bucket, FolderTrees(), lambda: f"m{next(_drawn)}", read_only=False)


async def test_lost_answer_of_a_save(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record that was stored by an unanswered put is recognised as this store's own, and its archive stays."""

    async def repeated(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        return await create(path, data)

    store = intercepted_store(seaweed.environment(prefix))
    store.intercept(repeated)
    assert await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x"))) is True
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


async def test_save_cancelled_before_the_answer(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """The record may be stored, so its archive stays, and the entry is complete."""
    sent = anyio.Event()

    async def never_answered(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        sent.set()
        await anyio.sleep_forever()
        return True

    store = intercepted_store(seaweed.environment(prefix))
    store.intercept(never_answered)
    async with anyio.create_task_group() as group:
        group.start_soon(store.save, "c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
        await sent.wait()
        group.cancel_scope.cancel()
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


async def test_store_unavailable_before_the_answer(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """The archive stays if the record cannot be read any more."""

    async def cut(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        raise StoreUnavailable("s3://cache", "the connection failed")

    store = intercepted_store(seaweed.environment(prefix))
    store.intercept(cut)
    with pytest.raises(StoreUnavailable):
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))


async def test_other_object_under_the_key(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """If an object that is not an entry appears under the key meanwhile, the new archive is removed."""

    async def late(create: Create, path: str, data: bytes) -> bool:
        obstore.put(seaweed.bucket(prefix), path, b"{}")
        return await create(path, data)

    store = intercepted_store(seaweed.environment(prefix))
    store.intercept(late)
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    assert archives(seaweed, prefix) == []


RECORD = "scratch/c/entry/k.json"


def record_of(bucket: Any) -> ScratchRecord:
    """Returns the record of the cache `c` with the key `k`."""
    found = decode_record(bytes(obstore.get(bucket, RECORD).bytes()), "c", "k")
    assert found is not None
    return found


def change_record(bucket: Any, **changes: Any) -> None:
    """Replace the record, which no store does."""
    obstore.put(bucket, RECORD, encode_record(msgspec.structs.replace(record_of(bucket), **changes)))


def spoil_archive(bucket: Any) -> None:
    """Change a byte of a file: the tar stays valid, its digest differs."""
    path = record_of(bucket).archive
    data = bytearray(obstore.get(bucket, path).bytes())
    data[data.index(b"#!/bin/sh")] ^= 1
    obstore.put(bucket, path, bytes(data))


def exchange_archive(bucket: Any) -> None:
    """Replace the archive by other bytes of the recorded length."""
    obstore.put(bucket, record_of(bucket).archive, bytes(record_of(bucket).length))


def cut_archive(bucket: Any) -> None:
    """Remove the last bytes of the archive."""
    path = record_of(bucket).archive
    obstore.put(bucket, path, bytes(obstore.get(bucket, path).bytes())[:-512])


def remove_archive(bucket: Any) -> None:
    """Remove the archive of a record."""
    obstore.delete(bucket, record_of(bucket).archive)


def change_tree(bucket: Any) -> None:
    """Let the record name another tree than that of its archive."""
    change_record(bucket, tree=Tree((file("other"),)).digest)


def change_archive(bucket: Any) -> None:
    """Let the record name another object of the bucket as its archive."""
    change_record(bucket, archive="secrets.tar")


def escape(bucket: Any) -> None:
    """Store an archive that would write outside its folder, with a record that fits."""
    data = tar_member("0/../../escaped", b"x") + bytes(1024)
    obstore.put(bucket, record_of(bucket).archive, data)
    change_record(bucket, sha256=hashlib.sha256(data).hexdigest(), length=len(data))


@pytest.mark.parametrize(
    "spoil",
    [spoil_archive, exchange_archive, cut_archive, remove_archive, change_tree, escape],
    ids=lambda spoil: spoil.__name__,
)
async def test_damaged_entry_is_refused(seaweed: SeaweedFS, prefix: str, tmp_path: Path, spoil: Any) -> None:
    """The error names the entry, and the folder is unchanged; the entry stays, since entries never change."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    spoil(seaweed.bucket(prefix))
    before = Tree((file("before"),))
    folder = folder_with(tmp_path / "y", before, {"before": b""})
    with pytest.raises(StoreError, match=r"s3://cache/test/\d+/scratch/c/entry/k\.json: the entry is damaged"):
        await store.restore("c", "k", str(folder))
    assert read_folder(folder) == before
    assert names(tmp_path) == ["x", "y"]
    assert await store.save("c", entry("k"), SMALL, str(tmp_path / "x")) is False


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 100, b"x" * (LARGEST + 1)])
async def test_invalid_record(seaweed: SeaweedFS, prefix: str, tmp_path: Path, data: bytes) -> None:
    """An invalid record is an error for its key, and a listing skips it."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("kk"), SMALL, str(folder_with(tmp_path / "x")))
    obstore.put(seaweed.bucket(prefix), "scratch/c/entry/k.json", data)
    for asked in (store.find("c", "k"), store.restore("c", "k", str(tmp_path / "y"))):
        with pytest.raises(StoreError, match=r"scratch/c/entry/k\.json: this is not an entry of senro") as caught:
            await asked
        assert not isinstance(caught.value, StoreUnavailable)
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.save("c", entry("k"), SMALL, str(tmp_path / "x"))
    assert "kk" in [one.key for one in await store.find_by_prefix("c", ["k"])]


async def test_record_of_another_key(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record that was copied to another key is not an entry of that key."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    bucket = seaweed.bucket(prefix)
    obstore.put(bucket, "scratch/c/entry/l.json", bytes(obstore.get(bucket, "scratch/c/entry/k.json").bytes()))
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.find("c", "l")


async def test_record_of_another_archive(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record whose archive is not one of its cache is not an entry."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    change_archive(seaweed.bucket(prefix))
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.restore("c", "k", str(tmp_path / "y"))


async def test_failing_disk(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A folder that cannot be written is an error of this machine, not of the entry."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    make_folder(tmp_path, Tree((file("y"),)), {"y": b""})
    with pytest.raises(TreeError):
        await store.restore("c", "k", str(tmp_path / "y"))


async def test_entries_of_one_second_are_ordered(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Entries that the store received within a second are ordered by their own times; a damaged one is not."""
    store, folder = opened(seaweed.environment(prefix)), folder_with(tmp_path / "x")
    for key, hour in (("a", 3), ("b", 1), ("c", 2)):
        await store.save("c", entry(key, hour), SMALL, str(folder))
    found = [*await store.find_by_prefix("c", [""])]
    written: dict[datetime, list[str]] = {}
    for one in found:
        written.setdefault(one.created.replace(microsecond=0), []).append(one.key)
    for together in written.values():
        assert [key for key in newest(found) if key in together] == [key for key in "acb" if key in together]


async def test_memory_is_bounded(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """An entry of 128 MiB is saved and restored in parts, with less than 64 MiB of memory."""
    path = tmp_path / "x" / "large"
    path.parent.mkdir()
    _random(path, 128)
    trees = FolderTrees()
    tree = await trees.walk(str(path.parent))
    store = opened(seaweed.environment(prefix))
    reset_peak_memory()
    before = peak_memory()
    assert await store.save("c", entry("k"), tree, str(path.parent)) is True
    assert await store.restore("c", "k", str(tmp_path / "y")) == tree
    assert peak_memory() - before < 64 << 20


def _random(path: Path, mebibytes: int) -> None:
    with path.open("wb") as file_:
        for _ in range(mebibytes):
            file_.write(os.urandom(1 << 20))


@pytest.mark.parametrize("after", [0, 1, 3_000, 200_000, 9_000_000, 15_000_000])
async def test_connection_lost_during_a_save(seaweed: SeaweedFS, prefix: str, tmp_path: Path, after: int) -> None:
    """A save that is cut anywhere reports an unavailable store, and leaves a complete entry or none."""
    content = os.urandom(16_000_000)
    tree = Tree((file("f", content),))
    folder = folder_with(tmp_path / "x", tree, {"f": content})
    with breakable_proxy(seaweed, after=after) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="2"))
        with pytest.raises(StoreUnavailable) as caught:
            await store.save("c", entry("k"), tree, str(folder))
    assert caught.value.path == f"s3://cache/{prefix}"
    direct = opened(seaweed.environment(prefix))
    if await direct.find("c", "k") is None:
        assert await direct.save("c", entry("k"), tree, str(folder)) is True
    await direct.restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == tree


@pytest.mark.parametrize("after", [0, 1_000, 5_000_000, 18_000_000])
async def test_connection_lost_during_a_restore(seaweed: SeaweedFS, prefix: str, tmp_path: Path, after: int) -> None:
    """A restore that is cut leaves the folder unchanged."""
    content = os.urandom(20_000_000)
    tree = Tree((file("f", content),))
    await opened(seaweed.environment(prefix)).save(
        "c", entry("k"), tree, str(folder_with(tmp_path / "x", tree, {"f": content}))
    )
    folder = folder_with(tmp_path / "y")
    with breakable_proxy(seaweed, after=after) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="2"))
        with pytest.raises(StoreUnavailable):
            await store.restore("c", "k", str(folder))
    assert read_folder(folder) == SMALL
    assert names(tmp_path) == ["x", "y"]


async def test_killed_server(tmp_path: Path) -> None:
    """A killed server is unavailable in every method, with the same message."""
    with seaweedfs(tmp_path / "server") as server:
        store = opened(server.environment("p", TIMEOUT="1"))
        await store.check("SENRO_REMOTE_SCRATCH")
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
        server.stop()
        for asked in (
            store.check("SENRO_REMOTE_SCRATCH"),
            store.find("c", "k"),
            store.find_by_prefix("c", ["k"]),
            store.restore("c", "k", str(tmp_path / "y")),
            store.save("c", entry("l"), SMALL, str(tmp_path / "x")),
        ):
            with pytest.raises(StoreUnavailable, match="s3://cache/p: the connection failed"):
                await asked


async def test_silent_server(seaweed: SeaweedFS, prefix: str) -> None:
    """A server that never answers is unavailable after the timeout."""
    with breakable_proxy(seaweed, silent=True) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="0.3"))
        with anyio.fail_after(10), pytest.raises(StoreUnavailable, match=r"did not answer within 0\.3 s"):
            await store.check("SENRO_REMOTE_SCRATCH")
        with anyio.fail_after(10), pytest.raises(StoreUnavailable):
            await store.find("c", "k")


async def test_cancellation_while_the_server_is_silent(seaweed: SeaweedFS, prefix: str) -> None:
    """A call can be cancelled at once, whatever the timeout is."""
    with breakable_proxy(seaweed, silent=True) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="3"))
        with anyio.fail_after(1), anyio.move_on_after(0.1) as scope:
            await store.find("c", "k")
        assert scope.cancelled_caught


async def test_refused_connection() -> None:
    """A port that refuses connections, and an unknown host, are unavailable."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for endpoint in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid"):
        environ = {
            "SENRO_REMOTE_SCRATCH": "s3://cache/p",
            "SENRO_REMOTE_SCRATCH_ENDPOINT": endpoint,
            "SENRO_REMOTE_SCRATCH_TIMEOUT": "2",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        with pytest.raises(StoreUnavailable, match="the connection failed"):
            await opened(environ).check("SENRO_REMOTE_SCRATCH")


async def test_check_of_a_bucket(seaweed: SeaweedFS, prefix: str) -> None:
    """A usable bucket passes the check, also a second time, and the mark says what is stored there."""
    for _ in range(2):
        await opened(seaweed.environment(prefix)).check("SENRO_REMOTE_SCRATCH")
    assert seaweed.paths(prefix) == ["senro-scratch"]


async def test_read_only(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """With rights to read, entries can be restored; without `read_only` the check refuses such rights."""
    await opened(seaweed.environment(prefix)).save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    store = opened(seaweed.environment(prefix, key=READER, READ_ONLY="yes"))
    await store.check("SENRO_REMOTE_SCRATCH")
    assert store.read_only is True
    assert [one.key for one in await store.find_by_prefix("c", ["k"])] == ["k"]
    await store.restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL
    writing = opened(seaweed.environment(prefix, key=READER))
    with pytest.raises(ConfigurationError, match="the credentials do not allow it"):
        await writing.check("SENRO_REMOTE_SCRATCH")
    with pytest.raises(StoreUnavailable, match="the credentials do not allow it"):
        await writing.save("c", entry("l"), SMALL, str(tmp_path / "x"))
    assert [path for path in seaweed.paths(prefix) if "/l.json" in path] == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {
                "SENRO_REMOTE_SCRATCH": "s3://other/p",
                "AWS_ACCESS_KEY_ID": ADMIN,
                "AWS_SECRET_ACCESS_KEY": SECRETS[ADMIN],
            },
            "the bucket does not exist (404 NoSuchBucket)",
        ),
        (
            {"AWS_SECRET_ACCESS_KEY": "wrong-secret-value"},
            "the credentials do not allow it (403 SignatureDoesNotMatch)",
        ),
        ({"AWS_ACCESS_KEY_ID": "NOBODY"}, "the credentials do not allow it (403 InvalidAccessKeyId)"),
    ],
)
async def test_what_cannot_work(seaweed: SeaweedFS, prefix: str, changed: dict[str, str], words: str) -> None:
    """A missing bucket and refused credentials are reported at the start, with the code of the object store.

    The message has no credential and no signature.
    """
    environ = seaweed.environment(prefix, key=READER) | {"SENRO_REMOTE_SCRATCH_READ_ONLY": "1"} | changed
    with pytest.raises(ConfigurationError) as caught:
        await opened(environ).check("SENRO_REMOTE_SCRATCH")
    (refusal,) = caught.value.refusals
    assert refusal.where == "SENRO_REMOTE_SCRATCH"
    assert words in refusal.message
    for secret in (*SECRETS, *SECRETS.values(), "wrong-secret-value", "Signature=", "AWS4-HMAC"):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


async def test_store_without_conditional_writes(seaweed: SeaweedFS, prefix: str) -> None:
    """It is refused, since an entry could be replaced there; reading is allowed."""

    async def always(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        return True

    store = intercepted_store(seaweed.environment(prefix))
    store.intercept(always)
    with pytest.raises(ConfigurationError, match="ignores If-None-Match"):
        await store.check("SENRO_REMOTE_SCRATCH")
    await opened(seaweed.environment(prefix, READ_ONLY="1")).check("SENRO_REMOTE_SCRATCH")


def test_missing_folder(tmp_path: Path) -> None:
    """A missing folder is refused: what should be mounted there is not."""
    with pytest.raises(ConfigurationError, match="is not a folder that can be opened; create or mount it"):
        opened({"SENRO_REMOTE_SCRATCH": f"file://{tmp_path}/missing"})


async def test_folder_replaced_by_a_file(tmp_path: Path) -> None:
    """The store is unavailable, with the text of the operating system, or its entries are gone."""
    shared = tmp_path / "shared"
    await anyio.Path(shared).mkdir()
    store = opened({"SENRO_REMOTE_SCRATCH": f"file://{shared}"})
    await store.check("SENRO_REMOTE_SCRATCH")
    await anyio.Path(shared).rename(tmp_path / "elsewhere")
    make_folder(tmp_path, Tree((file("shared"),)), {"shared": b""})
    with pytest.raises(StoreUnavailable, match="the system says"):
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"SENRO_REMOTE_SCRATCH": "az://container/p"}, "check the variables AZURE_..."),
        (
            {"SENRO_REMOTE_SCRATCH": "gs://bucket/p", "GOOGLE_SERVICE_ACCOUNT": "/nowhere/secret.json"},
            "the credentials cannot be read; check the variables GOOGLE_...",
        ),
    ],
)
def test_settings_that_obstore_refuses(environ: dict[str, str], words: str) -> None:
    """They are refused before any request, without their values."""
    with pytest.raises(ConfigurationError) as caught:
        opened(environ)
    assert words in str(caught.value)
    assert "/nowhere" not in str(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"SENRO_REMOTE_SCRATCH": "gs://bucket/p", "GOOGLE_CLOUD_PROJECT": "unknown to obstore"},
        {"SENRO_REMOTE_SCRATCH": "s3://bucket", "AWS_PROFILE": "unknown to obstore", "AWS_PAGER": "too"},
        {
            "SENRO_REMOTE_SCRATCH": "az://container",
            "AZURE_STORAGE_ACCOUNT_NAME": "acme",
            "SENRO_REMOTE_SCRATCH_ENDPOINT": "http://127.0.0.1:10000/acme",
        },
    ],
)
def test_other_variables_are_ignored(environ: dict[str, str]) -> None:
    """Variables of other tools are ignored, and every kind of store can be created."""
    store = opened(environ)
    assert store.name == environ["SENRO_REMOTE_SCRATCH"]


def test_own_variables_win(seaweed: SeaweedFS, prefix: str) -> None:
    """`SENRO_REMOTE_SCRATCH_ENDPOINT` and `_REGION` win over the variables of the object store's SDK."""
    environ = seaweed.environment(prefix) | {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_REGION": "elsewhere",
    }
    anyio.run(opened(environ).check, "SENRO_REMOTE_SCRATCH")


def test_default_credentials_can_write(seaweed: SeaweedFS) -> None:
    """The other tests use credentials that can write and cannot create buckets."""
    assert seaweed.environment("p")["AWS_ACCESS_KEY_ID"] == WRITER
