#!/usr/bin/env python3
"""Draws who waited when from a store.h5 of nsys-explain-mpi: trace ranks from top to bottom, job time from left to right.

    python3 jobs/skew_heatmap.py report/store.h5 heatmap.png

Needs h5py, pandas and matplotlib. Meant to be read and changed: open_table is all that is needed to get at any table.
"""

import sys

import h5py
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd


def open_table(store, name):
    """One table of the store as a data frame; units and meanings are attributes of each column's dataset."""
    group = store[name]
    return pd.DataFrame({column: data.asstr()[()] if h5py.check_string_dtype(data.dtype) else data[()]
                         for column, data in group.items()})


def heatmap(store, spans=200):
    """Waiting in milliseconds by trace rank (rows) and span of job time (columns, named by their start in seconds)."""
    instances = open_table(store, "collective_instances").set_index("instance")
    arrivals = open_table(store, "collective_arrivals")
    ended = arrivals["instance"].map(instances["last_enter_ns"])
    width = max(1, int(ended.max() - ended.min()) // spans + 1)
    span = (ended - ended.min()) // width
    cells = arrivals.assign(span=span).pivot_table(index="trace_rank", columns="span", values="wait_ns", aggfunc="sum", fill_value=0)
    cells.columns = [(ended.min() + s * width) * 1e-9 for s in cells.columns]
    return cells * 1e-6


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with h5py.File(sys.argv[1]) as store:
        cells = heatmap(store)
    figure, axes = plt.subplots(figsize=(12, 2 + 0.12 * len(cells)))
    image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="magma_r",
                        extent=(cells.columns[0], cells.columns[-1], len(cells) - 0.5, -0.5))
    axes.set(xlabel="job time, s", ylabel="trace rank", title="Waiting in collectives")
    figure.colorbar(image, label="ms per span")
    figure.savefig(sys.argv[2], dpi=120, bbox_inches="tight")
    latest = cells.sum(axis=1).idxmin()
    print(f"{len(cells)} trace ranks, {cells.to_numpy().sum():.1f} ms waited in all; trace rank {latest} waited least")


if __name__ == "__main__":
    main()
