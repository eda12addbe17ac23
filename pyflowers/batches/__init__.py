"""Thousands of fits on this machine's cores or on a Dask cluster, without losing results.

>>> import pyflowers
>>> from pyflowers import Task
>>> tasks = [Task("multilevel_poisson", name=str(i), repeat=i) for i in range(2)]
>>> batch = pyflowers.batch(tasks, out="results/sites", seed=1)
>>> batch.table("summary").shape[0]
10
>>> len(batch.failures)
0
"""

from pyflowers.batches.keep import Keep
from pyflowers.batches.ledger import Batch, Progress
from pyflowers.batches.pool import Pool
from pyflowers.batches.run import batch
from pyflowers.batches.task import Task

__all__ = ["Batch", "Keep", "Pool", "Progress", "Task", "batch"]
