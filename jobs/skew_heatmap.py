#!/usr/bin/env python3
"""Draws who waited when, how long steps took and who waited for whom, from a run of nsys-explain-mpi: as far as its store tells.

    python3 jobs/skew_heatmap.py report pictures.png

Needs h5py, pandas and matplotlib. Meant to be read and changed; nsys_explain.py beside it opens any table.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import nsys_explain


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    figure, axes = plt.subplots(3, 1, figsize=(12, 14), layout="constrained")
    with nsys_explain.open(sys.argv[1]) as run:
        pictures = [lambda: run.plot.lateness("wait_ns", axes[0]), lambda: run.plot.step_times(axes[1]), lambda: run.plot.wait_matrix(axes[2])]
        for draw, place in zip(pictures, axes):
            try:
                draw()
            except nsys_explain.Absent as reason:
                place.axis("off")
                place.text(0.5, 0.5, str(reason), ha="center", wrap=True)
                print(reason)
        ranks = run.table("ranks")
    figure.savefig(sys.argv[2], dpi=120)
    waited = f"{len(ranks)} trace ranks, {ranks['wait_ns'].sum() * 1e-6:.1f} ms waited in all"
    if ranks["wait_ns"].sum() > 0:
        waited += f"; trace rank {ranks.loc[ranks['wait_ns'].idxmin(), 'trace_rank']} waited least"
    print(waited)


if __name__ == "__main__":
    main()
