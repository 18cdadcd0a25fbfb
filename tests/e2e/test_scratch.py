"""Scratch caches: what a step starts with, what is saved, and by which step."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

import senro
from senro.domain.run.events import (
    Event,
    Noted,
    RemoteCacheDisabled,
    ScratchMissed,
    ScratchNotSaved,
    ScratchRestored,
    ScratchSaved,
    TransferCompleted,
)
from senro.domain.transfer.containers import IO_CONTAINER
from senro.testing import Bench
from tests.lib.harness.object_store import SeaweedFS, breakable_proxy, seaweedfs

SCRATCH = (RemoteCacheDisabled, ScratchMissed, ScratchNotSaved, ScratchRestored, ScratchSaved)

FILL = "cat /c/* 2>/dev/null; echo $0 >> /c/$1"
"""A script that prints the content of the cache, and adds a line to one of its files."""


GOMOD = senro.ScratchCache("gomod", key="gomod-{{ hash_files('go.sum') }}", restore_keys=["gomod-"])


def fill(bench: Bench, word: str = "first", *, cache: senro.ScratchCache = GOMOD) -> senro.Result:
    """Runs a pod that prints its cache and adds the word to it."""
    result: senro.Result = bench.one("sh", "-c", FILL, word, "words", mounts=[cache.at("/c")])
    return result


@pytest.fixture
def go_sum(bench: Bench) -> Path:
    """The file that the key hashes."""
    path = bench.folder / "go.sum"
    path.write_text("1")
    return path


def scratch_events(bench: Bench) -> list[Event]:
    """Returns the events about scratch caches."""
    return [event for event in bench.events() if isinstance(event, SCRATCH)]


def use_another_machine(bench: Bench, name: str) -> None:
    """Acts as another machine from now on: sets a new cache folder."""
    bench.environ["SENRO_CACHE_DIR"] = str(bench.folder / name)


def test_a_cache_is_saved_once_and_restored(bench: Bench, go_sum: Path) -> None:
    """The first run saves the downloaded cache. The second starts with it, and neither downloads nor saves it."""
    assert fill(bench).state == "succeeded"
    missed, saved = scratch_events(bench)
    assert isinstance(missed, ScratchMissed)
    assert isinstance(saved, ScratchSaved)
    assert (saved.cache, saved.step, saved.attempt, saved.store, saved.files) == ("gomod", "w.s", 1, "local", 1)
    assert saved.key == missed.key
    assert saved.key.startswith("gomod-")
    assert len(saved.key) == len("gomod-") + 64
    assert [event.direction for event in bench.of(TransferCompleted)] == ["upload", "download"]
    assert fill(bench, "second").state == "succeeded"
    assert bench.log("w.s") == b"first\n"
    (restored,) = scratch_events(bench)
    assert isinstance(restored, ScratchRestored)
    assert (restored.key, restored.entry_key, restored.store, restored.files) == (saved.key, saved.key, "local", 1)
    assert [event.direction for event in bench.of(TransferCompleted)] == ["upload"]
    go_sum.write_text("1")
    fill(bench, "third")
    assert bench.log("w.s") == b"first\n"


def test_a_restore_key_restores_the_newest_entry(bench: Bench, go_sum: Path) -> None:
    """With another key the newest entry under the restore key is restored, and the result saved under the key."""
    for word in ("1", "2", "3"):
        go_sum.write_text(word)
        fill(bench, word)
    assert bench.log("w.s") == b"1\n2\n"
    restored, saved = scratch_events(bench)
    assert isinstance(restored, ScratchRestored)
    assert isinstance(saved, ScratchSaved)
    assert restored.key == saved.key != restored.entry_key
    go_sum.write_text("2")
    fill(bench, "again")
    assert bench.log("w.s") == b"1\n2\n"
    fill(bench, "alone", cache=senro.ScratchCache("gomod", key="other"))
    assert bench.log("w.s") == b""


def test_a_cache_excludes_nothing(bench: Bench, go_sum: Path) -> None:
    """It keeps files that workspaces exclude, links that lead out of it, and executable files."""
    make = (
        "cd /c && mkdir -p node_modules/.git && ln -s /etc/hostname out; cd node_modules/.git; echo x > f; chmod +x f"
    )
    assert bench.one("sh", "-c", make, mounts=[GOMOD.at("/c")]).state == "succeeded"
    look = "readlink /c/out; test -x /c/node_modules/.git/f && cat /c/node_modules/.git/f"
    assert bench.one("sh", "-c", look, mounts=[GOMOD.at("/c")]).state == "succeeded"
    assert bench.log("w.s") == b"/etc/hostname\nx\n"
    assert go_sum.read_text() == "1"


@pytest.mark.usefixtures("go_sum")
def test_a_failed_step_saves_nothing(bench: Bench) -> None:
    """In a pod and locally. Its workspace is downloaded nevertheless."""
    out = senro.Workspace("out")
    mounts = [GOMOD.at("/c"), out.at("/out")]
    assert bench.one("sh", "-c", "echo x > /c/x; echo x > /out/x; exit 3", mounts=mounts).state == "failed"
    assert [type(event) for event in scratch_events(bench)] == [ScratchMissed]
    assert bench.tree("out") == {"x": b"x\n"}
    local = "echo x > $SENRO_SCRATCH_GOMOD/x; exit 3"
    assert bench.one("sh", "-c", local, on=senro.local(), mounts=[GOMOD.at("/c")]).state == "failed"
    assert [type(event) for event in scratch_events(bench)] == [ScratchMissed]


@pytest.mark.usefixtures("go_sum")
def test_no_snapshot_saves_nothing(bench: Bench) -> None:
    """A step with `no_snapshot` leaves its cache unchanged for later steps, in a pod and locally."""
    p = senro.Pipeline("p")
    w = p.workflow("a", on=bench.pod())
    w.step("pod", ["sh", "-c", "echo pod > /c/pod"], mounts=[GOMOD.at("/c")], no_snapshot=True)
    v = p.workflow("b", needs=["a"])
    v.step("here", ["sh", "-c", "echo here > here"], mounts=[GOMOD.at("/c")], workdir="/c", no_snapshot=True)
    v.step("look", ["sh", "-c", "ls"], mounts=[GOMOD.at("/c")], workdir="/c", needs=["here"], no_snapshot=True)
    assert bench.run(p).state == "succeeded"
    assert bench.log("b.look") == b""
    assert [type(event) for event in scratch_events(bench)] == [ScratchMissed]


@pytest.mark.usefixtures("go_sum")
def test_a_cache_passes_between_local_steps_and_pods(bench: Bench) -> None:
    """With needs, a pod starts with what the local step left, and the next local step with the download.

    The content after the first step is saved, also in a run that started with another entry. The ledger has what was
    not saved.
    """
    p = senro.Pipeline("p")
    p.workflow("a").step("local", ["sh", "-c", "echo a > a"], mounts=[GOMOD.at("/c")], workdir="/c")
    pods = p.workflow("b", needs=["a"], on=bench.pod())
    pods.step("pod", ["sh", "-c", "cat /c/a && echo b > /c/b && rm /c/a"], mounts=[GOMOD.at("/c")])
    last = p.workflow("c", needs=["b"])
    last.step("back", ["sh", "-c", "ls && cat b && echo c > c"], mounts=[GOMOD.at("/c")], workdir="/c")
    last.step("after", ["sh", "-c", "cat b c"], mounts=[GOMOD.at("/c")], workdir="/c", needs=["back"])
    p.workflow("d", needs=["c"], on=bench.pod()).step("pod", ["sh", "-c", "cat /c/b /c/c"], mounts=[GOMOD.at("/c")])
    assert bench.run(p).state == "succeeded"
    assert bench.log("b.pod") == b"a\n"
    assert bench.log("c.back") == b"b\nb\n"
    assert bench.log("c.after") == b"b\nc\n"
    assert bench.log("d.pod") == b"b\nc\n"
    assert [(event.step, event.store) for event in bench.of(ScratchSaved)] == [("a.local", "local")]
    first = "the content from a.local was saved first"
    said = [(event.step, event.reason) for event in bench.of(ScratchNotSaved)]
    assert said == [(step, first) for step in ("b.pod", "c.back", "c.after", "d.pod")]


@pytest.mark.usefixtures("go_sum")
def test_pods_share_a_cache(bench: Bench) -> None:
    """Each starts with the restored content and does not see the others. The first download is saved."""
    fill(bench, "old", cache=senro.ScratchCache("gomod", key="gomod-old"))
    p = senro.Pipeline("p")
    w = p.workflow("w", on=bench.pod())
    for name in ("a", "b", "c"):
        w.step(name, ["sh", "-c", f"cat /c/*; echo {name} > /c/{name}"], mounts=[GOMOD.at("/c")])
    w.step("d", ["sh", "-c", "cat /c/*"], mounts=[GOMOD.at("/c")], needs=["a", "b", "c"])
    assert bench.run(p).state == "succeeded"
    assert [bench.log(f"w.{name}") for name in "abcd"] == [b"old\n"] * 4
    (saved,) = bench.of(ScratchSaved)
    losers = {event.step: event.reason for event in bench.of(ScratchNotSaved)}
    assert losers == dict.fromkeys(
        {"w.a", "w.b", "w.c", "w.d"} - {saved.step}, f"the content from {saved.step} was saved first"
    )
    fill(bench, "next")
    assert bench.log("w.s").splitlines() == [saved.step[-1].encode(), b"old"]


@pytest.mark.bubblewrap
@pytest.mark.usefixtures("go_sum")
def test_a_failed_download_of_a_cache_saves_nothing(bench: Bench) -> None:
    """The step succeeds with its complete workspace, and the ledger has the reason."""
    out = senro.Workspace("out")
    mounts = [GOMOD.at("/c"), out.at("/out")]
    # The workspace is downloaded first and is smaller; every try for the cache after it is cut.
    bench.faults.cut_exec(direction="stdout", after_bytes=50_000, container=IO_CONTAINER, times=4)
    result = bench.one("sh", "-c", "head -c 100000 /dev/urandom > /c/x; echo x > /out/x", mounts=mounts)
    assert result.state == "succeeded"
    assert bench.tree("out") == {"x": b"x\n"}
    missed, lost = scratch_events(bench)
    assert isinstance(missed, ScratchMissed)
    assert isinstance(lost, ScratchNotSaved)
    assert (lost.step, lost.attempt, lost.store) == ("w.s", 1, "local")
    assert lost.reason.startswith("it was not downloaded: ")
    assert "3 tries" in lost.reason
    fill(bench)
    assert isinstance(scratch_events(bench)[0], ScratchMissed)


@pytest.mark.usefixtures("go_sum")
def test_a_cache_omits_fifos_and_keeps_links(bench: Bench) -> None:
    """A fifo is omitted, and a link that leads in a circle is kept as text."""
    make = "ln -s . deep; mkdir d; mkfifo d/fifo; echo x > x"
    assert bench.one("sh", "-c", make, on=senro.local(), mounts=[GOMOD.at("/c")], workdir="/c").state == "succeeded"
    saved = bench.of(ScratchSaved)
    assert [event.files for event in saved] == [1]
    bench.one("sh", "-c", "ls /c /c/d; readlink /c/deep", mounts=[GOMOD.at("/c")])
    assert bench.log("w.s").split() == b"/c: d deep x /c/d: .".split()


def test_a_key_without_a_matching_file_is_refused(bench: Bench) -> None:
    """It is refused before anything is created, with all such calls at once."""
    cache = senro.ScratchCache(
        "gomod", key="a-{{ hash_files('go.sum') }}", restore_keys=["a-{{ hash_files('**/*.lock', 'x') }}"]
    )
    with pytest.raises(senro.ConfigurationError) as caught:
        fill(bench, cache=cache)
    messages = [refusal.message for refusal in caught.value.refusals]
    assert [message.partition(" matches ")[2].partition(";")[0] for message in messages] == [
        "hash_files('go.sum')",
        "hash_files('**/*.lock', 'x')",
    ]
    assert not (bench.folder / "runs").exists()


def test_the_folder_of_runs_does_not_change_a_key(bench: Bench, go_sum: Path) -> None:
    """The copies of workspaces in the folder of the runs are not hashed."""
    src = senro.Workspace("src", path="src")
    (bench.folder / "src").mkdir()
    (bench.folder / "src" / "go.sum").write_text(go_sum.read_text())
    cache = senro.ScratchCache("gomod", key="k-{{ hash_files('**/go.sum') }}")
    keys = []
    for _ in range(2):
        bench.one("true", on=senro.local(), mounts=[cache.at("/c"), src.at("/src")])
        keys.append(
            next(event.key for event in scratch_events(bench) if isinstance(event, (ScratchMissed, ScratchRestored)))
        )
    assert keys[0] == keys[1]


# --- SENRO_REMOTE_SCRATCH ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with seaweedfs(tmp_path_factory.mktemp("seaweed") / "server") as server:
        yield server


@pytest.fixture
def remote(bench: Bench, seaweed: SeaweedFS, go_sum: Path) -> SeaweedFS:
    """The variables of the store, below the name of the bench's folder."""
    del go_sum
    bench.environ |= seaweed.environment(bench.folder.name)
    return seaweed


@pytest.mark.slow
@pytest.mark.usefixtures("remote")
def test_a_store_shares_entries_between_machines(bench: Bench) -> None:
    """An entry is saved in the store too. Another machine starts with it, and then has it locally."""
    fill(bench)
    assert [event.store for event in bench.of(ScratchSaved)] == ["local", "remote"]
    use_another_machine(bench, "other")
    for where in ("remote", "local"):
        fill(bench, "second")
        assert bench.log("w.s") == b"first\n"
        (restored,) = scratch_events(bench)
        assert isinstance(restored, ScratchRestored)
        assert restored.store == where


@pytest.mark.slow
def test_restore_keys_search_both_stores(bench: Bench, remote: SeaweedFS) -> None:
    """The newest entry of both stores under a restore key is used; an entry under the key is preferred."""
    del remote
    (bench.folder / "go.sum").write_text("here")
    fill(bench, "here")
    use_another_machine(bench, "other")
    (bench.folder / "go.sum").write_text("there")
    fill(bench, "there", cache=dataclasses.replace(GOMOD, restore_keys=()))
    bench.environ["SENRO_CACHE_DIR"] = str(bench.folder / "third")
    (bench.folder / "go.sum").write_text("new")
    fill(bench, "new")
    assert bench.log("w.s") == b"there\n"
    (bench.folder / "go.sum").write_text("here")
    fill(bench, "nothing")
    assert bench.log("w.s") == b"here\n"


@pytest.mark.slow
def test_two_coordinators_save_one_key_at_once(bench: Bench, remote: SeaweedFS) -> None:
    """Both runs succeed. One saves the entry, and the other reports that it exists."""
    # Each step waits for the other one, so that both runs have missed the key before either saves.
    met = f"until [ $(ls {bench.folder} | grep -c met-) = 2 ]; do sleep 0.02; done"
    (bench.folder / "two.py").write_text(
        "import senro\n"
        "cache = senro.ScratchCache('gomod', key='k')\n"
        "p = senro.Pipeline('one')\n"
        f"command = ['sh', '-c', 'echo $SENRO_RUN > who; touch {bench.folder}/met-$SENRO_RUN; {met}']\n"
        "p.workflow('w').step('s', command, mounts=[cache.at('/c')], workdir='/c')\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "senro", "run", "two.py"],
            cwd=bench.folder,
            env={**bench.environ, "SENRO_CACHE_DIR": str(bench.folder / f"cache{number}")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    paths = remote.paths(bench.folder.name)
    assert [path for path in paths if path.endswith(".json")] == ["scratch/gomod/entry/k.json"]
    assert len([path for path in paths if path.endswith(".tar")]) == 1
    said = "".join(outputs)
    assert said.count("gomod: saved as k in the shared store") == 1, outputs
    assert said.count("not saved as k in the shared store: another coordinator saved it first") == 1, outputs


@pytest.mark.slow
def test_a_store_that_fails_during_a_run(bench: Bench, remote: SeaweedFS) -> None:
    """The run succeeds, records one `scratch.remote-disabled`, and sends the store no more requests."""
    with breakable_proxy(remote, after=2_000_000) as way:
        bench.environ |= remote.environment(bench.folder.name, endpoint=way.endpoint, TIMEOUT="2")
        p = senro.Pipeline("p")
        big = "head -c 6000000 /dev/urandom > big"
        w = p.workflow("w")
        for name in ("a", "b"):
            cache = senro.ScratchCache(name, key="k")
            w.step(name, ["sh", "-c", big], mounts=[cache.at("/c")], workdir="/c", needs=["a"] * (name == "b"))
        assert bench.run(p).state == "succeeded"
    (degraded,) = bench.of(RemoteCacheDisabled)
    assert degraded.store == f"s3://cache/{bench.folder.name}"
    assert [(event.cache, event.store) for event in bench.of(ScratchSaved)] == [("a", "local"), ("b", "local")]
    assert [event.store for event in bench.of(ScratchNotSaved)].count("remote") >= 1


@pytest.mark.slow
def test_an_unreachable_store(bench: Bench, go_sum: Path) -> None:
    """The run continues without it, and reports that in one line before the first step."""
    del go_sum
    bench.environ |= {
        "SENRO_REMOTE_SCRATCH": "s3://cache/x",
        "SENRO_REMOTE_SCRATCH_ENDPOINT": "http://127.0.0.1:1",
        "SENRO_REMOTE_SCRATCH_TIMEOUT": "1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret-value",
    }
    (bench.folder / "one.py").write_text(
        "import senro\n"
        "cache = senro.ScratchCache('gomod', key=\"k-{{ hash_files('go.sum') }}\")\n"
        "p = senro.Pipeline('one')\n"
        "p.workflow('w').step('s', ['sh', '-c', 'env; exit 0'], mounts=[cache.at('/c')])\n"
    )
    done = bench.cli("run", "one.py")
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    lines = [line for line in output.splitlines() if "s3://cache/x" in line]
    assert len(lines) == 1
    assert "continues without the scratch store s3://cache/x: the connection failed" in lines[0]
    assert "SENRO_REMOTE_SCRATCH" not in output.replace(lines[0], "")


@pytest.mark.slow
def test_ctrl_c_while_a_store_does_not_answer(bench: Bench, remote: SeaweedFS) -> None:
    """The command ends although a request is in flight that may take minutes."""
    (bench.folder / "one.py").write_text(
        "import senro\n"
        "p = senro.Pipeline('one')\n"
        "p.workflow('w').step('s', ['true'], mounts=[senro.ScratchCache('gomod', key='k').at('/c')])\n"
    )
    with breakable_proxy(remote, silent=True) as way:
        environ = bench.environ | remote.environment(bench.folder.name, endpoint=way.endpoint, TIMEOUT="600")
        child = subprocess.Popen(
            [sys.executable, "-m", "senro", "run", "one.py"], cwd=bench.folder, env=environ, stdout=subprocess.DEVNULL
        )
        way.asked.wait(30)
        child.send_signal(signal.SIGINT)
        child.wait(10)
    assert child.returncode != 0


@pytest.mark.slow
def test_an_unusable_store_is_refused(bench: Bench, remote: SeaweedFS) -> None:
    """A bucket that does not exist is refused, with all other problems, before a run is created."""
    bench.environ |= {"SENRO_REMOTE_SCRATCH": "s3://no-such-bucket/x"}
    with pytest.raises(senro.ConfigurationError, match="s3://no-such-bucket/x cannot be used"):
        fill(bench)
    bench.environ |= remote.environment("x") | {"SENRO_REMOTE_SCRATCH_TIMEOUT": "soon"}
    (bench.folder / "go.sum").unlink()
    with pytest.raises(senro.ConfigurationError) as caught:
        fill(bench)
    assert len(caught.value.refusals) == 2
    assert not (bench.folder / "runs").exists()


@pytest.mark.slow
def test_a_plan_without_caches_ignores_the_store(bench: Bench) -> None:
    """A run without a scratch cache does not read the variables."""
    bench.environ |= {"SENRO_REMOTE_SCRATCH": "nonsense"}
    assert bench.one("true", on=senro.local()).state == "succeeded"


@pytest.mark.slow
def test_a_damaged_entry_is_not_used(bench: Bench, remote: SeaweedFS) -> None:
    """The step starts with the next best entry or with nothing, and the ledger has the reason."""
    fill(bench)
    bucket = remote.bucket(bench.folder.name)
    (archive,) = [path for path in remote.paths(bench.folder.name) if path.endswith(".tar")]
    obstore.put(bucket, archive, bytes(obstore.get(bucket, archive).bytes()).replace(b"first", b"wrong"))
    use_another_machine(bench, "other")
    assert fill(bench, "second").state == "succeeded"
    assert bench.log("w.s") == b""
    assert [type(event) for event in scratch_events(bench)] == [ScratchMissed, ScratchSaved, ScratchNotSaved]
    (noted,) = [event for event in bench.of(Noted) if "scratch" in event.message]
    assert "the entry is damaged" in noted.message
    assert bench.of(RemoteCacheDisabled) == []


@pytest.mark.slow
def test_a_read_only_store(bench: Bench, remote: SeaweedFS) -> None:
    """A machine that may only read starts with entries of others, and saves none."""
    fill(bench)
    before = remote.paths(bench.folder.name)
    use_another_machine(bench, "other")
    bench.environ |= remote.environment(bench.folder.name, key="READERKEY", READ_ONLY="1")
    fill(bench, "second")
    assert bench.log("w.s") == b"first\n"
    (bench.folder / "go.sum").write_text("2")
    fill(bench, "third")
    assert [event.store for event in bench.of(ScratchSaved)] == ["local"]
    assert remote.paths(bench.folder.name) == before
