"""A Dask cluster of separate processes, whose scheduler and workers may be killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Processes:
    """A scheduler and workers, each a process with one thread."""

    def __init__(self, folder, num_workers=2, nanny=False, environment=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.folder, self.nanny = folder, nanny
        path = os.pathsep.join([str(HERE), *sys.path])
        own = {"PYTHONPATH": path, "TMPDIR": str(folder)}
        self.environment = {**os.environ, **own, **(environment or {})}
        self.scheduler, self.workers = None, []
        self.start_scheduler()
        for _ in range(num_workers):
            self.add_worker()

    def start_scheduler(self):
        """Start the scheduler, always at the same address."""
        self.scheduler = self._started("dask_scheduler", "--port", str(self.port))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise TimeoutError

    def add_worker(self):
        """Start a worker."""
        kind = "--nanny" if self.nanny else "--no-nanny"
        words = ("--nthreads", "1", kind, "--local-directory", str(self.folder))
        self.workers.append(self._started("dask_worker", self.address, *words))

    def kill_worker(self, index=0):
        """Kill a worker."""
        self._kill(self.workers.pop(index))

    def dismiss_worker(self, index=0):
        """Stop a worker with SIGTERM, so that it signs off from the scheduler."""
        worker = self.workers.pop(index)
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)

    def wait_for_workers_to_end(self, seconds):
        """Wait until all workers have ended by themselves."""
        end = time.monotonic() + seconds
        for worker in self.workers:
            worker.wait(max(0.1, end - time.monotonic()))

    def keep(self, num_workers):
        """Replace workers that have ended."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < num_workers:
            self.add_worker()

    def kill_scheduler(self):
        """Kill the scheduler."""
        self._kill(self.scheduler)

    def close(self):
        """End all processes."""
        for process in [*self.workers, self.scheduler]:
            process.send_signal(signal.SIGTERM)
        for process in [*self.workers, self.scheduler]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                self._kill(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _started(self, module, *words):
        dashboard = (
            ("--no-dashboard",) if module == "dask_worker" else ("--dashboard-address", ":0")
        )
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *words, *dashboard],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @staticmethod
    def _kill(process):
        process.kill()
        process.wait()
