"""Progress of long-running work: a line in the log, and a bar on a terminal."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("pyflowers")


@contextmanager
def stage(title: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show one stage of long-running work and yield the function that advances it.

    In a process that is forked during the stage, the function does nothing, because the bar belongs
    to the parent.

    Parameters
    ----------
    title : str
        What the stage does, as shown to the user.
    total : int, optional
        Number of steps. If it is not known, the bar only counts the steps that are done.
    """
    from tqdm import tqdm

    logger.info("%s", title)
    # disable=None draws the bar on a terminal only.
    off = None if logger.isEnabledFor(logging.WARNING) else True
    with tqdm(total=total, desc=title, disable=off, leave=False, file=sys.stderr) as bar:
        own = os.getpid()

        def advance(steps: int) -> None:
            if os.getpid() == own:
                bar.update(steps)

        yield advance
