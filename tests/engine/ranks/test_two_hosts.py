"""Two hosts, each a network namespace with an address of its own, joined by a cable that is cut.

They share a folder, as hosts of a cluster do, and nothing else: loopback of the one does not reach
the other. It takes root, and `ip` of iproute2.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS
from tests.engine.ranks.programs import train_to_digest

ROOT = Path(__file__).resolve().parents[3]
NAMES = [f"gk{os.getpid()}{side}" for side in "ab"]
ADDRESSES = ["10.203.77.1", "10.203.77.2"]
CABLE = "gk0"
PORT = 29_533
PATIENCE = 20
"""Seconds that a rank waits for another."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def can_make_hosts() -> bool:
    if shutil.which("ip") is None:
        return False
    try:
        ip("netns", "add", f"{NAMES[0]}try")
        ip("netns", "del", f"{NAMES[0]}try")
    except (subprocess.CalledProcessError, PermissionError):
        return False
    return True


@pytest.fixture
def hosts() -> Iterator[None]:
    if not can_make_hosts():
        pytest.skip("network namespaces need root and iproute2")
    try:
        for name in NAMES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ends = [["netns", name] for name in NAMES]
        ip("link", "add", CABLE, *ends[0], "type", "veth", "peer", "name", CABLE, *ends[1])
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", CABLE)
            ip("-n", name, "link", "set", CABLE, "up")
        yield
    finally:
        for name in NAMES:
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)


class Cluster:
    """torchrun on both hosts."""

    def __init__(self, kind: str, folder: Path, options: dict[str, Any]) -> None:
        self._folder = folder
        program = ["-m", "tests.engine.ranks.programs", kind, str(folder / "run")]
        settings = {"GLOO_SOCKET_IFNAME": CABLE, "OMP_NUM_THREADS": "1"}
        self.hosts = []
        for number, name in enumerate(NAMES):
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
            torchrun += [f"--node-rank={number}", "--nproc-per-node=1", "--monitor-interval=0.1"]
            torchrun += [f"--master-addr={ADDRESSES[0]}", f"--master-port={PORT}"]
            log = open(folder / f"log-{number}", "ab")  # noqa: SIM115
            command = ["ip", "netns", "exec", name, *torchrun, *program, json.dumps(options)]
            self.hosts.append(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=os.environ | settings,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
            log.close()

    def wait_for(self, *names: str) -> None:
        end = time.monotonic() + 300
        while not all((self._folder / name).exists() for name in names):
            assert time.monotonic() < end, self.said
            assert all(host.poll() is None for host in self.hosts), self.said
            time.sleep(0.1)

    def ended(self) -> list[int]:
        try:
            return [host.wait(150) for host in self.hosts]
        finally:
            for host in self.hosts:
                with suppress(ProcessLookupError):
                    os.killpg(host.pid, signal.SIGKILL)

    @property
    def said(self) -> str:
        texts = [(self._folder / f"log-{number}").read_text()[-3000:] for number in (0, 1)]
        return "\n".join(texts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_host_that_is_cut_off_is_started_again_and_the_run_ends_as_if_it_never_was(
    hosts: None, two_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    options: dict[str, Any] = {"items": 20, "size": 2, "timeout": PATIENCE, "wait_at": 5}
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "go").touch()
    expected = two_ranks.run(train_to_digest, kind, str(tmp_path / "alone" / "run"), options)

    cluster = Cluster(kind, tmp_path, options)
    cluster.wait_for("waits-0", "waits-1")
    ip("-n", NAMES[1], "link", "set", CABLE, "down")
    (tmp_path / "go").touch()
    codes = cluster.ended()

    assert 0 not in codes
    assert "the ranks lost each other" in cluster.said
    assert not (tmp_path / "digest-0").exists()

    ip("-n", NAMES[1], "link", "set", CABLE, "up")
    cluster = Cluster(kind, tmp_path, options)

    assert cluster.ended() == [0, 0], cluster.said
    found = [(tmp_path / f"digest-{rank}").read_text() for rank in range(2)]
    assert found == [digest for _, digest in expected]
