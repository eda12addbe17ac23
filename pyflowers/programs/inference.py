"""What a declaration can leave out, because the program's text and the table's columns show it.

A column of a variable's name is that variable. The size of a vector that a column fills is the
number of rows, and the size that indexes are bounded by is the number of labels. Nothing is
guessed that could be wrong: the error prints the lines to add.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping

from pyflowers.errors import ConfigError
from pyflowers.programs.declaration import (
    OBS,
    Column,
    Columns,
    DataSource,
    Declaration,
    Size,
    Value,
)
from pyflowers.programs.source import Blocks, Declared, Variable


def complete(
    declared: Declaration, blocks: Blocks, columns: Collection[str], where: str
) -> Declaration:
    """Return the declaration with every variable of the data block in it.

    Parameters
    ----------
    declared : Declaration
        What the user wrote.
    blocks : Blocks
        What the program declares.
    columns : collection of str
        The table's columns.
    where : str
        The declaration's file, for messages.

    Raises
    ------
    ConfigError
        Naming what is declared and does not exist, or is needed and not declared.
    """
    check_names(declared, blocks, where)
    data = infer(declared, blocks, columns)
    missing = [n for n in blocks.data if n not in data and n not in declared.priors]
    if missing:
        raise ConfigError(_what_to_add(missing, blocks.data, columns, where))
    whole = declared.model_copy(update={"data": data})
    return whole.model_copy(update={"dims": dims_of(whole, blocks)})


def dimension_names(
    declared: Declaration, blocks: Blocks, columns: Collection[str] = ()
) -> tuple[Declaration, dict[str, str]]:
    """Give dimensions of the draws names that nothing else has and that netCDF can list.

    A column of labels is a dimension, and may be called anything: ``visit day`` becomes
    ``visit_day``, as netCDF separates names by blanks, and ``chain`` becomes ``chain_``.

    Parameters
    ----------
    declared : Declaration
        What the user wrote.
    blocks : Blocks
        What the program declares.
    columns : collection of str
        The table's columns.

    Returns
    -------
    declared : Declaration
        With these names.
    names : dict of str to str
        The new name of each column or dimension that has one.
    """
    data = {**declared.data, **_indexes(declared.data, declared, blocks.data, columns)}
    whole = declared.model_copy(update={"data": data})
    meant = {OBS, *whole.matrices}
    used = {"chain", "draw", "y", declared.roles.observed, *meant, *blocks.draws}
    others = [dim for dims in declared.dims.values() for dim in dims if dim not in meant]
    taken = {*used, *whole.columns, *others}
    names: dict[str, str] = {}
    for name in dict.fromkeys((*whole.label_columns, *others)):
        plain = re.sub(r"[\s/\0]|^\.+$", "_", name)
        if plain != name or name in used:
            names[name] = free_name(plain, taken)
            taken.add(names[name])
    return whole.with_labels(names), names


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name with as many underscores at its end as make it differ from those taken."""
    while name in taken:
        name += "_"
    return name


def infer(declared: Declaration, blocks: Blocks, columns: Collection[str]) -> dict[str, DataSource]:
    """Return the sources of the data block's variables that are unambiguous, in its order.

    Parameters
    ----------
    declared : Declaration
        What the user wrote.
    blocks : Blocks
        What the program declares.
    columns : collection of str
        The table's columns.
    """
    data = dict(declared.data)
    switches = {(declared.roles.prior_only, 0), (declared.roles.held_out, 1)}
    for name, variable in blocks.data.items():
        if name in data or name in declared.priors:
            continue
        # What is observed is what it is, an ordinal rating also, and no label.
        is_label = name != declared.roles.observed and is_index(variable, blocks.data)
        if variable.ndim == 1 and name in columns and not is_label:
            data[name] = Column(column=name)
        elif variable.is_int and (name, variable.ndim) in switches:
            data[name] = Value(value=0)
    data |= _indexes(data, declared, blocks.data, columns)
    data |= _sizes(data, declared, blocks.data)
    return {name: data[name] for name in blocks.data if name in data}


def check_names(declared: Declaration, blocks: Blocks, where: str) -> None:
    """Refuse names that the program does not have.

    Raises
    ------
    ConfigError
        Naming the section and the key.
    """
    draws, all_variables = blocks.draws, {**blocks.data, **blocks.draws}
    for section, names, known, block in (
        ("data", declared.data, blocks.data, "data block"),
        ("priors", declared.priors, blocks.data, "data block"),
        ("dims", declared.dims, all_variables, "blocks"),
        ("parameters", declared.parameters, draws, "parameters and generated quantities"),
        ("omit", declared.omit, draws, "parameters and generated quantities"),
    ):
        for name in names:
            if name not in known:
                have = ", ".join(known) or "nothing"
                raise ConfigError(
                    f"{where}: [{section}] names {name}, which the program does not declare in its "
                    f"{block}: {have}"
                )
    for name, dims in declared.dims.items():
        ndim = all_variables[name].ndim
        if len(dims) != ndim:
            raise ConfigError(
                f"{where}: [dims] gives {name} {len(dims)} dimensions and the program {ndim}; name "
                "one for each"
            )
    for name, source in declared.data.items():
        _check_shape(name, source, blocks.data[name], where)


def dims_of(declared: Declaration, blocks: Blocks) -> dict[str, tuple[str, ...]]:
    """Return the dimensions of everything that has some, as declared or by its sizes.

    A dimension of which nothing is known is called as ArviZ calls it, ``alpha_dim_0``.
    """
    by_size = {
        name: source.size for name, source in declared.data.items() if isinstance(source, Size)
    }
    found = {}
    for name, variable in {**blocks.data, **blocks.draws}.items():
        if variable.ndim:
            names = tuple(
                by_size.get(size, f"{name}_dim_{i}") for i, size in enumerate(variable.sizes)
            )
            unique = len(set(names)) == len(names)
            found[name] = names if unique else tuple(f"{name}_dim_{i}" for i in range(len(names)))
    return {**found, **declared.dims}


def _check_shape(name: str, source: DataSource, variable: Variable, where: str) -> None:
    """Refuse a source that cannot fill a variable's shape."""
    wanted = {Column: 1, Columns: 2, Size: 0}.get(type(source))
    if wanted is not None and variable.ndim != wanted:
        kinds = {0: "a scalar", 1: "a vector", 2: "a matrix"}
        is_now = kinds.get(variable.ndim, f"an array of {variable.ndim} dimensions")
        raise ConfigError(
            f"{where}: [data] {name} is {is_now} in the program, and this entry gives "
            f"{kinds[wanted]}; correct one of them"
        )


def is_index(variable: Variable, data: Declared) -> bool:
    """Whether a variable counts from 1 up to another: ``array[N] int<lower=1, upper=P>``."""
    return variable.is_int and variable.lower == "1" and variable.upper in data


def _indexes(
    data: Mapping[str, DataSource], declared: Declaration, block: Declared, columns: Collection[str]
) -> dict[str, DataSource]:
    """Find the columns of index variables: those of their names."""
    return {
        # In order of value, as a program may take neighbours by their positions.
        name: Column(column=name, index=True, order="value")
        for name, variable in block.items()
        if name not in data
        and name not in declared.priors
        and name != declared.roles.observed
        and variable.ndim == 1
        and is_index(variable, block)
        and name in columns
    }


def _sizes(
    data: Mapping[str, DataSource], declared: Declaration, block: Declared
) -> dict[str, DataSource]:
    """Find the sizes that can only have one meaning."""
    found: dict[str, DataSource] = {}
    for name, source in data.items():
        variable = block[name]
        if isinstance(source, Column | Columns):
            found.setdefault(variable.sizes[0], Size(size=source.per or OBS))
        if isinstance(source, Columns):
            found.setdefault(variable.sizes[1], Size(size=name))
        if isinstance(source, Column) and source.index and variable.upper:
            found.setdefault(variable.upper, Size(size=source.column))
    return {
        name: size
        for name, size in found.items()
        if name in block
        and name not in data
        and name not in declared.priors
        and block[name].is_int
        and not block[name].ndim
    }


def _what_to_add(missing: list[str], block: Declared, columns: Collection[str], where: str) -> str:
    """Name the variables without a source, and the lines that would declare them."""
    have = ", ".join(columns)
    lines = "\n".join(f"    {draft(block[name], block)}" for name in missing)
    several = "variables" if len(missing) > 1 else "variable"
    return (
        f"{where}: the data {several} {', '.join(missing)} cannot be told from the table, whose "
        f"columns are {have}. Add to {where}:\n    [data]\n{lines}"
    )


def draft(variable: Variable, block: Declared) -> str:
    """Return the line of a declaration that a variable of this shape most likely needs."""
    if variable.ndim == 0:
        if variable.is_int and any(v.upper == variable.name for v in block.values()):
            return f'{variable.name} = {{ size = "..." }}  # the column whose labels it counts'
        if variable.is_int and any(variable.name in v.sizes for v in block.values()):
            counts = "or the column whose labels it counts, or a value"
            return f'{variable.name} = {{ size = "obs" }}  # {counts}'
        return f"{variable.name} = {{ value = 1 }}  # or under [priors], to be changed by --prior"
    if variable.ndim == 1 and is_index(variable, block):
        return f'{variable.name} = {{ column = "...", index = true }}'
    if variable.ndim == 1:
        return f'{variable.name} = {{ column = "..." }}'
    if variable.ndim == 2:
        return f'{variable.name} = {{ columns = ["...", "..."] }}'
    return f"{variable.name} = {{ value = [...] }}"
