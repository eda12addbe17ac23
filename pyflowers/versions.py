"""Versions of installed packages, each looked up once: reading its metadata takes milliseconds."""

from functools import cache
from importlib import metadata


@cache
def version(package: str) -> str:
    """Return the version of an installed package, by the name that it has on an index.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        If it is not installed.
    """
    return metadata.version(package)
