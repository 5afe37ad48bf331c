"""Starts the ranks of a run as processes of their own, looks after them, and returns the run's exit code.

They get torchrun's variables, so that a rank does not know who started it. Rank 0 has the terminal. The output of the
others goes to rank-1.log, … in the run's folder: warnings and tracebacks, mostly nothing.

Signals are passed on, once each: the ranks are in process groups of their own, where a terminal's Ctrl-C does not reach
them. When one rank dies the others are ended too; what rank 0 had no time to say about it is said here.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo.ranks.place import place, wanted
from grpo.runs.status import read_status, write_status
from grpo.sweep.cores import usable
from grpo.sweep.launch import command, die_with_parent

BEAT = 0.05  # seconds between looks
GRACE = 30.0  # seconds to end in after another rank died: rank 0 writes down what happened, and tells W&B
SOON = 3.0  # seconds to end in after rank 0 has ended
KILL = 10.0  # seconds between SIGTERM and SIGKILL
TAIL = 25  # lines
LOG = "GRPO_RANK_LOG"


def needed(trainer: Any) -> bool:
    """Whether a trainer node wants several ranks, and this process is none yet."""
    return place() is None and wanted(trainer) > 1


def supervise(config: Any, flags: Sequence[str] = ()) -> int:
    """Run `config` on its devices; the exit code. flags: what stood before the overrides."""
    words = command(config.overrides, flags)
    with tempfile.TemporaryDirectory(prefix="grpo-ranks-") as folder:
        logs = Path(folder)
        processes = _start(words, wanted(config.trainer), logs)
        try:
            with _passed_on(processes):
                failed = _wait(processes)
        except BaseException:
            _end(processes, KILL)
            raise
        code = processes[0].returncode if failed is None else _after(processes, failed, logs)
        for log in logs.glob("rank-*.log"):  # links into the run's folder
            if log.exists() and log.stat().st_size == 0:
                log.resolve().unlink()
    return code if code >= 0 else 128 - code


def environment(rank: int, world: int, port: int, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A rank's variables. The cores, or the OMP_NUM_THREADS of the run, are divided among the ranks."""
    said = given.get("OMP_NUM_THREADS", "")
    threads = max(1, (int(said) if said.isdecimal() and int(said) else usable()) // world)
    local = "lo" in {name for _, name in socket.if_nameindex()}
    return {
        **({"GLOO_SOCKET_IFNAME": "lo"} if local else {}),  # a host's name need not resolve
        **given,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }


def keep_log(folder: Path, rank: int) -> None:
    """In a rank, as soon as the run's folder is known: its output, also what came before, is <folder>/rank-1.log, …"""
    if (before := os.environ.get(LOG)) is None:
        return
    target = folder.resolve() / f"rank-{rank}.log"
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    shutil.copyfile(before, target)
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    link = Path(f"{before}.link")
    link.symlink_to(target)
    os.replace(link, before)  # where the launcher looks


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _start(words: Sequence[str], world: int, logs: Path) -> list[subprocess.Popen[bytes]]:
    port = _free_port()
    processes: list[subprocess.Popen[bytes]] = []
    for rank in range(world):
        variables = environment(rank, world, port)
        output = None
        if rank > 0:
            variables[LOG] = str(logs / f"rank-{rank}.log")
            output = open(variables[LOG], "ab")  # noqa: SIM115
        processes.append(
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                env=variables,
                process_group=0 if os.name == "posix" else None,
                preexec_fn=die_with_parent if os.name == "posix" else None,
            )
        )
        if output is not None:
            output.close()
    return processes


@contextmanager
def _passed_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """SIGINT and SIGTERM go to all ranks; outside the main thread Python allows no handlers."""

    def handler(number: int, _: Any) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """The rank that failed first, the others ended after it; None where all ended well.

    An orderly end is rank 0's to tell, by its exit code; the others then say 0.
    """
    while True:
        codes = [process.poll() for process in processes]
        failed = next((rank for rank, code in enumerate(codes) if code), None)
        if failed is not None:
            _end(processes, SOON if codes[0] is not None else GRACE)
            return failed
        if codes[0] == 0 and None in codes:  # the others have nothing to do but to end
            _end(processes, GRACE)
            return None
        if None not in codes:
            return None
        time.sleep(BEAT)


def _end(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> None:
    """Wait `grace` seconds for all to end, then end them."""
    for number, seconds in ((None, grace), (signal.SIGTERM, KILL), (signal.SIGKILL, KILL)):
        end = time.monotonic() + seconds
        for process in processes:
            if number is not None and process.poll() is None:
                process.send_signal(number)
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            time.sleep(BEAT)


def _after(processes: Sequence[subprocess.Popen[bytes]], failed: int, logs: Path) -> int:
    """What is left to say after a failure, and the run's exit code."""
    code = processes[0].returncode
    if failed == 0 or not (log := logs / f"rank-{failed}.log").exists():
        return code
    lines = log.read_text(errors="replace").splitlines()
    said = next((line for line in reversed(lines) if line.strip()), "")
    status = None if log.parent == log.resolve().parent else read_status(log.resolve().parent)
    if status is not None and status.status == "running":  # rank 0 was ended before it could write
        text = f"rank {failed} died: {said or f'exit code {processes[failed].returncode}'}"
        write_status(log.resolve().parent, status.now("failed", error=text))
    interrupted = processes[failed].returncode == 130
    if not interrupted and not (code > 0 and status is not None and said and said in (status.error or "")):
        where = f" (all of it: {log.resolve()})" if status is not None else ""
        head = f"rank {failed} ended with exit code {processes[failed].returncode}; its last words{where}:"
        print("\n".join([head, *lines[-TAIL:]]), file=sys.stderr, flush=True)
    return code if code >= 0 else processes[failed].returncode
