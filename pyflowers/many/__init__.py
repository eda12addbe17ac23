"""Thousands of fits: on this machine's cores or a Dask cluster, without losing results.

>>> from pyflowers.many import Task, run_many
>>> tasks = [Task("multilevel_poisson", name=str(i), repeat=i) for i in range(2)]
>>> batch = run_many(tasks, out="results/sites", seed=1)
>>> batch.table("summary").shape[0]
10
>>> len(batch.failures)
0
"""

from pyflowers.many.keep import Keep
from pyflowers.many.pool import Pool
from pyflowers.many.results import Batch, Progress
from pyflowers.many.run import run_many
from pyflowers.many.task import Task

__all__ = ["Batch", "Keep", "Pool", "Progress", "Task", "run_many"]
