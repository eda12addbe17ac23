"""Where the Stan programs and the example data are, in a checkout and in an installed wheel."""

from pathlib import Path

from pyflowers.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return the folder `name`: package data in a wheel, beside the package in a checkout."""
    packaged = _PACKAGE / f"_{name}"
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def stan_folder() -> Path:
    """Return the folder of the Stan programs and their declarations."""
    return _folder("stan")


def data_path(name: str) -> Path:
    """Return a file of the example data."""
    return _folder("data") / name


def program_path(name: str) -> Path:
    """Return the Stan program `name` that ships with pyflowers.

    Raises
    ------
    ConfigError
        If no program has that name.
    """
    path = stan_folder() / f"{name}.stan"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.stan")))
        raise ConfigError(f"no Stan program is named {name!r}: choose one of {known}")
    return path


def flowers_csv() -> Path:
    """Return the lecture's data: three plants, four months, number of flowers."""
    return data_path("flowers.csv")


def gaussian_mixture_csv() -> Path:
    """Return the lecture's mixture: 1,000 points and the component that each was drawn from."""
    return data_path("gaussian_mixture.csv")
