"""Checkpoints: what is saved comes back bit for bit, and a cut at any moment leaves the one before."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grpo.errors import UserError
from grpo.runs import checkpoint

Dies = Callable[[int, Callable[[], object]], int]


def content(step: int) -> dict:
    generator = torch.Generator().manual_seed(step)
    weight = torch.randn(3, 4, generator=generator)
    return {
        "tensors": {"weight": weight, "bias": torch.randn(3, generator=generator)},
        "optimizer": {
            "state": {0: {"step": torch.tensor(7.0), "exp_avg": weight * 0.5}},
            "param_groups": [{"lr": 1e-4}],
        },
        "state": {"config_hash": "3f9c21ab", "seed": 0, "tokens": {"generated": 12345}, "best": float("-inf")},
        "extra": {"lag0/weight": weight + 1},
    }


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    saved = content(50)
    path = checkpoint.save(tmp_path, 50, **saved)
    assert path == tmp_path / "step-000050"
    assert checkpoint.complete(path)
    loaded = checkpoint.load(path)
    assert loaded.step == 50
    assert loaded.state == saved["state"]
    assert loaded.tensors.keys() == saved["tensors"].keys()
    assert all(torch.equal(loaded.tensors[name], saved["tensors"][name]) for name in loaded.tensors)
    assert torch.equal(loaded.optimizer["state"][0]["exp_avg"], saved["optimizer"]["state"][0]["exp_avg"])
    assert loaded.optimizer["param_groups"] == [{"lr": 1e-4}]
    assert torch.equal(loaded.extra["lag0/weight"], saved["extra"]["lag0/weight"])
    assert [p.name for p in tmp_path.iterdir()] == ["step-000050"]


def test_the_optimizer_of_torch_comes_back_bit_for_bit(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    (weight * torch.arange(3.0)).sum().backward()
    optimizer.step()
    path = checkpoint.save(tmp_path, 1, {"w": weight}, optimizer.state_dict(), {})
    again = torch.nn.Parameter(checkpoint.load(path).tensors["w"])
    other = torch.optim.AdamW([again], lr=0.3)
    other.load_state_dict(checkpoint.load(path).optimizer)
    for parameter, opt in ((weight, optimizer), (again, other)):
        parameter.grad = torch.full((3,), 0.25)
        opt.step()
    assert torch.equal(weight, again)


def test_tied_weights_are_stored_under_both_names(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3)
    tensors = {"embed": table, "head": table, "row": table[1], "turned": table.t()}
    loaded = checkpoint.load(checkpoint.save(tmp_path, 1, tensors, {}, {})).tensors
    assert torch.equal(loaded["embed"], table)
    assert torch.equal(loaded["head"], table)
    assert loaded["row"].tolist() == [3.0, 4.0, 5.0]
    assert torch.equal(loaded["turned"], table.t())


def test_a_view_does_not_drag_its_table_into_the_file(tmp_path: Path) -> None:
    table = torch.zeros(1000, 1000)  # 4 MB
    path = checkpoint.save(tmp_path, 1, {}, {"row": table[0]}, {})
    assert (path / "optimizer.pt").stat().st_size < 20_000  # 1000 × 4 bytes and the frame of the archive


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("optimizer", {"lr": Path("x")}, r"optimizer\['lr'\] is a pathlib\.\w*Path; only plain types are stored"),
        ("optimizer", {"a": [1, {2.5: 0}]}, r"optimizer\['a'\]\[1\] has the key 2.5"),
        ("state", {"counts": {1: 2}}, r"state\['counts'\] is \{1: 2\}"),
        ("state", {"pair": (1, 2)}, r"state\['pair'\] is \(1, 2\)"),
    ],
)
def test_other_than_plain_types_are_refused_before_a_file_exists(
    tmp_path: Path, key: str, value: dict, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        checkpoint.save(tmp_path / "checkpoints", 1, **{**content(1), key: value})
    assert not (tmp_path / "checkpoints").exists()


def test_the_same_step_can_be_saved_again(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 50, **content(50))
    path = checkpoint.save(tmp_path, 50, **content(51))
    assert torch.equal(checkpoint.load(path).tensors["weight"], content(51)["tensors"]["weight"])
    assert [p.name for p in tmp_path.iterdir()] == ["step-000050"]


def test_damage_is_named_and_passed_over(tmp_path: Path) -> None:
    old, new = (checkpoint.save(tmp_path, step, **content(step)) for step in (50, 60))
    file = new / "trainable.safetensors"
    whole = file.read_bytes()

    file.write_bytes(whole[: len(whole) // 2])  # cut in half
    size = f"trainable.safetensors has {len(whole) // 2} bytes instead of {len(whole)}"
    assert checkpoint.newest_complete(tmp_path) == (old, [(new, size)])
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit turned, same size
    changed = "trainable.safetensors has changed since it was written (sha256 differs)"
    assert checkpoint.newest_complete(tmp_path) == (old, [(new, changed)])
    with pytest.raises(UserError) as error:
        checkpoint.load(new)
    assert str(error.value) == f"resume   {new} is damaged: {changed}"
    file.unlink()
    assert checkpoint.newest_complete(tmp_path) == (old, [(new, "trainable.safetensors is missing")])
    (new / "manifest.json").write_text("{")
    assert checkpoint.newest_complete(tmp_path) == (old, [(new, "manifest.json is missing or unreadable")])
    assert not checkpoint.complete(new)
    assert checkpoint.newest_complete(tmp_path / "nothing") == (None, [])


def test_prune_keeps_the_newest_whole_ones_and_the_best(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        checkpoint.save(tmp_path, step, **content(step))
    (tmp_path / "step-000050" / "state.json").unlink()  # damaged: does not count as one of the two
    deleted = checkpoint.prune(tmp_path, keep=2, protect={10})
    # whole: 40 30 20 10; the newest two are 40 and 30, 10 is the best; 50 is damaged and 20 superfluous
    assert [p.name for p in deleted] == ["step-000050", "step-000020"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000010", "step-000030", "step-000040"]


def test_tidy_removes_leftovers_and_nothing_else(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 50, **content(50))
    (tmp_path / "step-000060.tmp-123").mkdir()
    (tmp_path / "step-000050.old-123").mkdir()
    (tmp_path / "notes.tmp-1").write_text("mine")
    checkpoint.tidy(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.tmp-1", "step-000050"]


@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step again"])
def test_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path, dies: Dies, again: bool) -> None:
    target, count = (50 if again else 60), 0
    while True:
        count += 1
        folder = tmp_path / str(count)
        checkpoint.save(folder, 40, **content(40))
        checkpoint.save(folder, 50, **content(50))
        code = dies(count, lambda folder=folder: checkpoint.save(folder, target, **content(target)))
        assert code in (0, 9)
        checkpoint.tidy(folder)
        newest, skipped = checkpoint.newest_complete(folder)
        assert skipped == []
        assert newest is not None
        assert newest.name in ("step-000050", f"step-{target:06d}")
        assert checkpoint.load(newest).state == content(50)["state"]
        assert all(checkpoint.step_of(path) for path in folder.iterdir())  # nothing is left over
        checkpoint.save(folder, target, **content(target))
        assert checkpoint.newest_complete(folder)[0] == folder / f"step-{target:06d}"
        if code == 0:
            break
    # mkdir, 3 files opened by Python, 5 files + 2 folders fsynced (two ticks each), rename: at least 18 moments
    assert count >= 18


def test_kill_while_pruning_leaves_no_damaged_checkpoint(tmp_path: Path, dies: Dies) -> None:
    code, count = 9, 0
    while code == 9:
        count += 1
        folder = tmp_path / str(count)
        for step in (10, 20, 30):
            checkpoint.save(folder, step, **content(step))
        code = dies(count, lambda folder=folder: checkpoint.prune(folder, keep=1))
        checkpoint.tidy(folder)
        left = checkpoint.every(folder)
        assert all(checkpoint.complete(path) for path in left)
        assert left[0].name == "step-000030"
        assert checkpoint.every(folder) == sorted(folder.iterdir(), reverse=True)
    assert code == 0
    # two checkpoints go, each by one rename, five files and one rmdir: 14 moments, and the call that survives
    assert count == 15


def test_a_full_disk_at_any_moment_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 50, **content(50))
    for name in ("fsync", "rename", "mkdir"):
        original, count = getattr(os, name), 0
        while True:
            count += 1
            left = [count]

            def fails(*arguments: object, original=original, left=left, **named: object) -> object:
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return original(*arguments, **named)

            with monkeypatch.context() as patch:
                patch.setattr(os, name, fails)
                try:
                    checkpoint.save(tmp_path, 50, **content(51))
                    said = None
                except UserError as error:
                    said = str(error)
            assert said is None or "step-000050: No space left on device; make room there" in said
            newest, skipped = checkpoint.newest_complete(tmp_path)
            assert newest == tmp_path / "step-000050"
            assert skipped == []
            if left[0] > 0:
                break


def test_every_file_is_on_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def noted_rename(source: Path, target: Path) -> None:
        events.append(f"{source.name} -> {target.name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    path = checkpoint.save(tmp_path / "checkpoints", 50, **content(50))
    temporary = f"step-000050.tmp-{os.getpid()}"
    files = ["extra.safetensors", "optimizer.pt", "state.json", "trainable.safetensors"]
    assert events == [*files, "manifest.json", temporary, f"{temporary} -> step-000050", "checkpoints"]
    assert sorted(json.loads((path / "manifest.json").read_text())["files"]) == files
