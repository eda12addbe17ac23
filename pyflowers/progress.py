"""Progress of long work: a bar on a terminal, a line in the log elsewhere."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("pyflowers")


@contextmanager
def stage(title: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show one stage of long work and yield the function that advances it.

    In a process that is forked within the stage the function does nothing: the bar is its parent's.

    Parameters
    ----------
    title : str
        What is being done, for the reader.
    total : int, optional
        Number of steps; without it the bar counts without an end.
    """
    from tqdm import tqdm

    logger.info("%s", title)
    # None draws the bar on a terminal only.
    off = None if logger.isEnabledFor(logging.WARNING) else True
    with tqdm(total=total, desc=title, disable=off, leave=False, file=sys.stderr) as bar:
        own = os.getpid()

        def advance(steps: int) -> None:
            if os.getpid() == own:
                bar.update(steps)

        yield advance
