"""A few processes that form a process group, and run one function after another in it."""

import gc
import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

PATIENCE = 120
"""Seconds that a function or the start of a process may take, however busy the machine."""


class Pool:
    def __init__(self, size: int, *, timeout: float = 45) -> None:
        context = mp.get_context("spawn")
        port = free_port()
        self._pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, rank, size, port, timeout), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What the function returned on each rank; an exception there is one here."""
        for rank, pipe in enumerate(self._pipes):
            pipe.send((function, rank, arguments))
        answers = [self._answer(rank) for rank in range(len(self._pipes))]
        failures = [text for failed, text in answers if failed]
        assert not failures, "\n".join(failures)
        return [value for _, value in answers]

    def _answer(self, rank: int) -> tuple[bool, Any]:
        if not self._pipes[rank].poll(PATIENCE):
            return True, f"rank {rank} hangs"
        try:
            answer: tuple[bool, Any] = self._pipes[rank].recv()
        except EOFError:
            return False, "ended"
        return answer

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _serve(pipe: Connection, rank: int, size: int, port: int, timeout: float) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    start, patience = timedelta(seconds=PATIENCE), timedelta(seconds=timeout)
    store = TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=start)
    # What is here by now stays: it need not be searched after each function.
    gc.freeze()
    for number in count():
        function, its_rank, arguments = pipe.recv()
        own = PrefixStore(f"function {number}", store)
        dist.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=patience)
        try:
            answer = (False, function(its_rank, *arguments))
        except BaseException:
            answer = (True, f"rank {rank}: {traceback.format_exc()}")
        _end_groups()
        pipe.send(answer)


def _end_groups() -> None:
    """All that the function made. Each has threads that wake a hundred times a second: left to the
    end of the tests, some hundred groups keep every core of the machine busy."""
    dist.destroy_process_group()
    # Modules wrapped by DDP hold theirs, and are parts of cycles.
    gc.collect()
