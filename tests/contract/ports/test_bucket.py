"""Scratch entries in a shared folder and on a real object store, and everything that such a store does to a run.

More than 500 lines: one server, which takes seconds to start, serves all of it.
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
    """A place of the test's own."""
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


async def test_the_loser_leaves_nothing(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Ten coordinators that save one key at once leave one record and one archive, which is the winner's."""
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


class Meddled(BucketScratchStore):
    """A store whose put of a record goes as the test says: it gets the put itself, a path and the data."""

    def meddle(self, how: Callable[[Create, str, bytes], Awaitable[bool]]) -> None:
        create = self._bucket.create

        async def meddled(path: str, data: bytes) -> bool:
            return await how(create, path, data)

        self._bucket.create = meddled  # type: ignore[method-assign]  # what is played is one answer of a real store


def meddled(environ: Mapping[str, str]) -> Meddled:
    return Meddled(opened(environ)._bucket, FolderTrees(), lambda: f"m{next(_drawn)}", read_only=False)


async def test_an_answer_that_was_lost(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record that turns out to be there, and to be ours, was saved by us: its archive stays."""

    async def repeated(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        return await create(path, data)

    store = meddled(seaweed.environment(prefix))
    store.meddle(repeated)
    assert await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x"))) is True
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


async def test_cancelled_before_the_answer_came(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record whose put was on its way may be there: its archive stays, and the entry is whole."""
    sent = anyio.Event()

    async def never_answered(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        sent.set()
        await anyio.sleep_forever()
        return True

    store = meddled(seaweed.environment(prefix))
    store.meddle(never_answered)
    async with anyio.create_task_group() as group:
        group.start_soon(store.save, "c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
        await sent.wait()
        group.cancel_scope.cancel()
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


async def test_unavailable_before_the_answer_came(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Nor is an archive removed whose record nobody can look for any more."""

    async def cut(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        raise StoreUnavailable("s3://cache", "the connection failed")

    store = meddled(seaweed.environment(prefix))
    store.meddle(cut)
    with pytest.raises(StoreUnavailable):
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    await opened(seaweed.environment(prefix)).restore("c", "k", str(tmp_path / "y"))


async def test_something_else_got_there_first(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Where something that is no entry appears under the key meanwhile, our archive goes."""

    async def late(create: Create, path: str, data: bytes) -> bool:
        obstore.put(seaweed.bucket(prefix), path, b"{}")
        return await create(path, data)

    store = meddled(seaweed.environment(prefix))
    store.meddle(late)
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    assert archives(seaweed, prefix) == []


RECORD = "scratch/c/entry/k.json"


def record_of(bucket: Any) -> ScratchRecord:
    """The record of the cache `c` under the key `k`."""
    found = decode_record(bytes(obstore.get(bucket, RECORD).bytes()), "c", "k")
    assert found is not None
    return found


def change_record(bucket: Any, **changes: Any) -> None:
    """Put another record in its place, as nobody who keeps to the rules can."""
    obstore.put(bucket, RECORD, encode_record(msgspec.structs.replace(record_of(bucket), **changes)))


def spoil_archive(bucket: Any) -> None:
    """Another byte in the middle of a file: the tar is as good as before, its digest another."""
    path = record_of(bucket).archive
    data = bytearray(obstore.get(bucket, path).bytes())
    data[data.index(b"#!/bin/sh")] ^= 1
    obstore.put(bucket, path, bytes(data))


def exchange_archive(bucket: Any) -> None:
    """Something else, as long as the record says."""
    obstore.put(bucket, record_of(bucket).archive, bytes(record_of(bucket).length))


def cut_archive(bucket: Any) -> None:
    """The archive without its last bytes."""
    path = record_of(bucket).archive
    obstore.put(bucket, path, bytes(obstore.get(bucket, path).bytes())[:-512])


def remove_archive(bucket: Any) -> None:
    """A record without its archive."""
    obstore.delete(bucket, record_of(bucket).archive)


def lie_about_the_tree(bucket: Any) -> None:
    """A record whose archive is whole, and that names another tree."""
    change_record(bucket, tree=Tree((file("other"),)).digest)


def point_elsewhere(bucket: Any) -> None:
    """A record whose archive is another place of the bucket."""
    change_record(bucket, archive="secrets.tar")


def escape(bucket: Any) -> None:
    """An archive that would write beside its folder, with a record that fits."""
    data = tar_member("0/../../escaped", b"x") + bytes(1024)
    obstore.put(bucket, record_of(bucket).archive, data)
    change_record(bucket, sha256=hashlib.sha256(data).hexdigest(), length=len(data))


@pytest.mark.parametrize(
    "spoil",
    [spoil_archive, exchange_archive, cut_archive, remove_archive, lie_about_the_tree, escape],
    ids=lambda spoil: spoil.__name__,
)
async def test_wrong_bytes_under_a_right_key(seaweed: SeaweedFS, prefix: str, tmp_path: Path, spoil: Any) -> None:
    """They are refused, naming the entry, and the folder is as it was; the entry stays, since entries never change."""
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
async def test_something_else_under_a_key(seaweed: SeaweedFS, prefix: str, tmp_path: Path, data: bytes) -> None:
    """What is no record is refused by its name, by whoever asks for that key; a listing passes over it."""
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


async def test_a_record_of_another_key(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record that was copied to another key is not that key's entry."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    bucket = seaweed.bucket(prefix)
    obstore.put(bucket, "scratch/c/entry/l.json", bytes(obstore.get(bucket, "scratch/c/entry/k.json").bytes()))
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.find("c", "l")


async def test_a_record_that_points_elsewhere(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A record whose archive is no archive of its cache is no entry."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    point_elsewhere(seaweed.bucket(prefix))
    with pytest.raises(StoreError, match="not an entry of senro"):
        await store.restore("c", "k", str(tmp_path / "y"))


async def test_a_disk_that_fails(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """A folder that cannot be written is this machine's failure, not the entry's."""
    store = opened(seaweed.environment(prefix))
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    make_folder(tmp_path, Tree((file("y"),)), {"y": b""})
    with pytest.raises(TreeError):
        await store.restore("c", "k", str(tmp_path / "y"))


async def test_within_a_second(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Entries that the store received in one second are told apart by when they were made; a damaged one is not."""
    store, folder = opened(seaweed.environment(prefix)), folder_with(tmp_path / "x")
    for key, hour in (("a", 3), ("b", 1), ("c", 2)):
        await store.save("c", entry(key, hour), SMALL, str(folder))
    found = [*await store.find_by_prefix("c", [""])]
    written: dict[datetime, list[str]] = {}
    for one in found:
        written.setdefault(one.created.replace(microsecond=0), []).append(one.key)
    for together in written.values():
        assert [key for key in newest(found) if key in together] == [key for key in "acb" if key in together]


async def test_memory_stays_flat(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """An entry of 128 MiB crosses in parts in both directions with less than 64 MiB of memory."""
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
async def test_a_store_that_dies_midway(seaweed: SeaweedFS, prefix: str, tmp_path: Path, after: int) -> None:
    """Cut anywhere, a save says that the store is unavailable, and the bucket has no entry, or a whole one."""
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
async def test_a_store_that_dies_while_it_is_read(seaweed: SeaweedFS, prefix: str, tmp_path: Path, after: int) -> None:
    """A restore that is cut leaves the folder as it was."""
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


async def test_a_store_that_is_killed(tmp_path: Path) -> None:
    """A server that is killed is unavailable from then on, with the same words whatever is asked."""
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


async def test_a_store_that_says_nothing(seaweed: SeaweedFS, prefix: str) -> None:
    """A store that takes a request and never answers is unavailable once the timeout has passed."""
    with breakable_proxy(seaweed, silent=True) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="0.3"))
        with anyio.fail_after(10), pytest.raises(StoreUnavailable, match=r"did not answer within 0\.3 s"):
            await store.check("SENRO_REMOTE_SCRATCH")
        with anyio.fail_after(10), pytest.raises(StoreUnavailable):
            await store.find("c", "k")


async def test_cancelled_while_it_says_nothing(seaweed: SeaweedFS, prefix: str) -> None:
    """Whoever asks can be cancelled at once, however long the timeout is."""
    with breakable_proxy(seaweed, silent=True) as way:
        store = opened(seaweed.environment(prefix, endpoint=way.endpoint, TIMEOUT="3"))
        with anyio.fail_after(1), anyio.move_on_after(0.1) as scope:
            await store.find("c", "k")
        assert scope.cancelled_caught


async def test_nobody_listens() -> None:
    """A port that refuses, and a name that does not exist, are unavailable."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
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


async def test_checked(seaweed: SeaweedFS, prefix: str) -> None:
    """A place that works passes, the first time and again; the mark says what lies there."""
    for _ in range(2):
        await opened(seaweed.environment(prefix)).check("SENRO_REMOTE_SCRATCH")
    assert seaweed.paths(prefix) == ["senro-scratch"]


async def test_read_only(seaweed: SeaweedFS, prefix: str, tmp_path: Path) -> None:
    """Who may only read can restore what others saved, and checks no more than that; otherwise it is refused."""
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
    """A bucket that is not there and credentials that are refused are told at the start, by the store's own code.

    No credential and no signature stands in the message.
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


async def test_a_store_that_ignores_conditions(seaweed: SeaweedFS, prefix: str) -> None:
    """It is refused, since anybody could exchange an entry there; reading from it is fine."""

    async def always(create: Create, path: str, data: bytes) -> bool:
        await create(path, data)
        return True

    store = meddled(seaweed.environment(prefix))
    store.meddle(always)
    with pytest.raises(ConfigurationError, match="ignores If-None-Match"):
        await store.check("SENRO_REMOTE_SCRATCH")
    await opened(seaweed.environment(prefix, READ_ONLY="1")).check("SENRO_REMOTE_SCRATCH")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """It is refused: what should be mounted there is not."""
    with pytest.raises(ConfigurationError, match="is not a folder that can be opened; create or mount it"):
        opened({"SENRO_REMOTE_SCRATCH": f"file://{tmp_path}/missing"})


async def test_a_folder_that_is_no_longer_there(tmp_path: Path) -> None:
    """A shared folder whose place is taken by a file is unavailable, by the system's words, or its entries are gone."""
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
def test_settings_that_make_no_store(environ: dict[str, str], words: str) -> None:
    """What obstore refuses to make a store of is refused before anything is sent, without quoting a value."""
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
def test_variables_that_say_nothing_to_it(environ: dict[str, str]) -> None:
    """Variables of other tools are passed over, and each kind of store can be made."""
    store = opened(environ)
    assert store.name == environ["SENRO_REMOTE_SCRATCH"]


def test_the_endpoint_that_was_asked_for(seaweed: SeaweedFS, prefix: str) -> None:
    """`SENRO_REMOTE_SCRATCH_ENDPOINT` and `_REGION` win over what the store's own variables say."""
    environ = seaweed.environment(prefix) | {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_REGION": "elsewhere",
    }
    anyio.run(opened(environ).check, "SENRO_REMOTE_SCRATCH")


def test_the_writer_is_the_default(seaweed: SeaweedFS) -> None:
    """The tests above ask as somebody who may write and make no bucket."""
    assert seaweed.environment("p")["AWS_ACCESS_KEY_ID"] == WRITER
