"""The conformance suite of `senro.ports.cache`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from senro.domain.caches.gc import Item, Sweep, sweep
from senro.domain.caches.lookup import ScratchEntry
from senro.domain.errors import StoreError
from senro.domain.tree.tree import Tree
from senro.ports.cache import Cache, Collection
from senro.ports.scratch import ScratchStore
from senro.ports.snapshots import ContentStore
from tests.lib.archives.files import file, link, make_folder, read_folder

pytestmark = pytest.mark.anyio

CREATED = datetime(2026, 11, 29, tzinfo=UTC)
EVERYTHING: dict[str, float | None] = {"max_age": -1.0, "max_size": None}


async def put(content: ContentStore, place: Path, *texts: bytes) -> Tree:
    """Store a snapshot with a file for each text, named by its number."""
    contents = {f"{number}": text for number, text in enumerate(texts)}
    tree = Tree(tuple(file(path, text) for path, text in contents.items()))
    make_folder(place, tree, contents)
    await content.put(tree, str(place))
    return tree


async def save(scratch: ScratchStore, place: Path, key: str, *texts: bytes) -> Tree:
    """Save an entry of the scratch cache `mod` with a file for each text."""
    contents = {f"{number}": text for number, text in enumerate(texts)}
    tree = Tree(tuple(file(path, text) for path, text in contents.items()))
    make_folder(place, tree, contents)
    assert await scratch.save("mod", ScratchEntry(key, CREATED), tree, str(place))
    return tree


async def collect(cache: Cache, *, now: float = 1e11, max_age: float | None = 0, max_size: int | None = None) -> Sweep:
    """Run one collection as the command does; by default it removes everything that is not needed."""
    async with cache.collecting() as collection:
        return await swept(collection, now=now, max_age=max_age, max_size=max_size)


async def swept(collection: Collection, *, now: float, max_age: float | None, max_size: int | None) -> Sweep:
    survey = await collection.survey()
    decision = sweep(survey.items, survey.bodies, now=now, max_age=max_age, max_size=max_size)
    await collection.drop(decision)
    return decision


class CacheSuite:
    """A subclass has the fixtures `cache`, and `content` and `scratch` over the same folder; all are empty."""

    @pytest.fixture
    def cache(self) -> Cache:
        raise NotImplementedError

    @pytest.fixture
    def content(self) -> ContentStore:
        raise NotImplementedError

    @pytest.fixture
    def scratch(self) -> ScratchStore:
        raise NotImplementedError

    async def test_empty_cache(self, cache: Cache) -> None:
        """A cache that was never used has no items, and nothing is removed."""
        async with cache.collecting() as collection:
            survey = await collection.survey()
            assert (survey.items, dict(survey.bodies), survey.keepers) == ((), {}, ())
            await collection.drop(sweep((), {}, now=0, max_age=0, max_size=0))

    async def test_snapshot_with_kept_links(self, cache: Cache, content: ContentStore, tmp_path: Path) -> None:
        """A snapshot with links that leave it has all of its bodies, and is kept."""
        tree = Tree((file("f", b"f"), link("l", "/etc/passwd")), links="keep")
        make_folder(tmp_path / "a", tree, {"f": b"f"})
        await content.put(tree, str(tmp_path / "a"))
        async with cache.collecting() as collection:
            (item,) = (await collection.survey()).items
        assert len(item.bodies) == 2

    async def test_survey(self, cache: Cache, content: ContentStore, tmp_path: Path) -> None:
        """Each snapshot is an item with its own index and bodies; a body that two of them share exists once."""
        one = await put(content, tmp_path / "a", b"shared", b"one!")
        two = await put(content, tmp_path / "b", b"shared")
        async with cache.collecting() as collection:
            survey = await collection.survey()
        items = {item.name: item for item in survey.items}
        assert items.keys() == {one.digest, two.digest}
        assert {item.kind for item in survey.items} == {"snapshot"}
        assert not any(item.needed for item in survey.items)
        assert len(items[one.digest].bodies & items[two.digest].bodies) == 1
        assert sum(survey.bodies[body] for body in items[two.digest].bodies) > 6
        assert len(survey.bodies) == 4

    async def test_drop(self, cache: Cache, content: ContentStore, tmp_path: Path) -> None:
        """A removed snapshot is gone, one that shares bodies with it is complete, and it can be stored again."""
        one = await put(content, tmp_path / "a", b"shared", b"one")
        two = await put(content, tmp_path / "b", b"shared")
        async with cache.collecting() as collection:
            survey = await collection.survey()
            chosen = tuple(item for item in survey.items if item.name == one.digest)
            kept = frozenset[str]().union(*(item.bodies for item in survey.items if item not in chosen))
            await collection.drop(Sweep(chosen, frozenset(survey.bodies.keys() - kept), 0, 0))
        with pytest.raises(StoreError, match="not in this store"):
            await content.get(one.digest)
        await content.restore(two.digest, str(tmp_path / "x"))
        assert read_folder(tmp_path / "x") == two
        await content.put(one, str(tmp_path / "a"))
        await content.restore(one.digest, str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == one

    async def test_drop_of_everything(
        self, cache: Cache, content: ContentStore, scratch: ScratchStore, tmp_path: Path
    ) -> None:
        """Without keepers everything can be removed, and the next survey is empty."""
        await put(content, tmp_path / "a", b"one", b"two")
        await save(scratch, tmp_path / "b", "k", b"three")
        decision = await collect(cache)
        assert (len(decision.items), decision.kept) == (2, 0)
        assert decision.freed > 0
        assert (await collect(cache)).freed == 0
        assert await scratch.find("mod", "k") is None

    async def test_scratch_entries(
        self, cache: Cache, content: ContentStore, scratch: ScratchStore, tmp_path: Path
    ) -> None:
        """The bodies of an entry are kept and removed with it."""
        tree = await save(scratch, tmp_path / "a", "k1", b"one")
        other = await save(scratch, tmp_path / "b", "k2", b"two")
        async with cache.collecting() as collection:
            survey = await collection.survey()
            assert [item.kind for item in survey.items] == ["scratch", "scratch"]
            gone = [item for item in survey.items if any(other.digest[7:] in body for body in item.bodies)]
            left = [item for item in survey.items if item not in gone]
            await collection.drop(sweep_of(gone, left, survey.bodies.keys()))
        assert await scratch.find("mod", "k2") is None
        with pytest.raises(StoreError):
            await content.get(other.digest)
        assert await scratch.restore("mod", "k1", str(tmp_path / "x")) == tree

    async def test_second_collection_is_refused(self, cache: Cache, content: ContentStore, tmp_path: Path) -> None:
        """A second collection is refused after a bounded time while the first one runs."""
        await put(content, tmp_path / "a", b"one")
        async with cache.collecting():
            with pytest.raises(StoreError, match="another senro"):
                async with cache.collecting():
                    pass
        assert (await collect(cache)).kept == 0

    async def test_use_after_the_survey_keeps_an_item(
        self, cache: Cache, content: ContentStore, scratch: ScratchStore, tmp_path: Path
    ) -> None:
        """What is stored, found or restored after the survey stays complete, whatever the decision says."""
        found = await put(content, tmp_path / "a", b"shared", b"found")
        restored = await put(content, tmp_path / "b", b"shared", b"restored")
        neither = await put(content, tmp_path / "c", b"shared", b"neither")
        entry = await save(scratch, tmp_path / "d", "k", b"shared", b"entry")
        async with cache.collecting() as collection:
            survey = await collection.survey()
            decision = sweep(survey.items, survey.bodies, now=1e11, max_age=0, max_size=None)
            assert len(decision.items) == 4
            assert decision.bodies == survey.bodies.keys()
            await content.put(found, str(tmp_path / "a"))
            await content.restore(restored.digest, str(tmp_path / "x"))
            await scratch.restore("mod", "k", str(tmp_path / "x"))
            new = await put(content, tmp_path / "e", b"shared", b"new")
            await collection.drop(decision)
        for tree in (found, restored, new):
            await content.restore(tree.digest, str(tmp_path / "x"))
            assert read_folder(tmp_path / "x") == tree
        assert await scratch.restore("mod", "k", str(tmp_path / "x")) == entry
        with pytest.raises(StoreError):
            await content.get(neither.digest)


def sweep_of(gone: list[Item], left: list[Item], bodies: object) -> Sweep:
    """Returns a decision of the test."""
    assert isinstance(bodies, type({}.keys()))
    held = frozenset[str]().union(*(item.bodies for item in left))
    return Sweep(tuple(gone), frozenset(bodies - held), 0, 0)
