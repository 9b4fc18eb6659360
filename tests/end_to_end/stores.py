"""What a store holds, for tests that compare two of them."""

import h5py


def datasets(path):
    """Every dataset of a store outside /run, as bytes."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("run/"):
            values = item[()]
            found[name] = [bytes(v) for v in values] if item.dtype.kind == "O" else values.tobytes()

    with h5py.File(path) as store:
        store.visititems(visit)
    return found


def table(path, name):
    """A table of a store as a list of rows, each a value by column."""
    with h5py.File(path) as store:
        columns = {column: values.asstr()[()] if h5py.check_string_dtype(values.dtype) else values[()] for column, values in store[name].items()}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]
