"""Remove what Python lacks on Windows from every Python process with this folder on its path.

File locks cannot be imported, nothing can fork, and there are no named pipes, process groups or
timers. The standard library's own implementation of processes stays, as do the paths of POSIX.
"""

import asyncio  # noqa: F401  (on Windows it uses other event loops)
import multiprocessing
import os
import signal
import sys

import filelock  # noqa: F401  (on Windows it uses different locks)

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None

for owner, names in (
    (os, "fork forkpty register_at_fork killpg setsid mkfifo geteuid sched_getaffinity"),
    (os, "O_NOFOLLOW O_CLOEXEC O_DIRECTORY sysconf"),
    (signal, "SIGALRM SIGHUP SIGUSR1 SIGUSR2 setitimer alarm"),
):
    for name in names.split():
        delattr(owner, name)

multiprocessing.set_start_method("spawn")
multiprocessing.get_all_start_methods = lambda: ["spawn"]
vars(os)["process_cpu_count"] = os.cpu_count  # as on Windows, from Python 3.13 on
