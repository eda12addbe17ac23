"""Progress of long work: a bar on a terminal, a line in the log elsewhere."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("pyflowers")


@contextmanager
def stage(title: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show one stage of long work and yield the function that advances it.

    Parameters
    ----------
    title : str
        What is being done, for the reader.
    total : int, optional
        Number of steps; without it the bar counts without an end.
    """
    from tqdm import tqdm

    logger.info("%s", title)
    with tqdm(total=total, desc=title, disable=None, leave=False, file=sys.stderr) as bar:
        yield bar.update
