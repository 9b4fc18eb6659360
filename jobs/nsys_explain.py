"""Results of nsys-explain-mpi in Python: tables as data frames with units, and three pictures. Needs h5py and pandas; the
pictures need matplotlib.

    import nsys_explain
    run = nsys_explain.open("report")            # the directory of a run, or its store.h5
    run                                          # in a notebook: verdict and findings; else print(run.verdict)
    ranks = run.table("ranks")                   # a pandas.DataFrame
    ranks.attrs["units"]["wait_ns"]              # "ns"; likewise attrs["meanings"] and attrs["description"]
    run.plot.lateness()                          # also run.plot.step_times() and run.plot.wait_matrix()

The same of a report that `nsys-explain-mpi serve` has, without h5py:

    run = nsys_explain.Client("http://127.0.0.1:8750", token).open("job8")
"""

import html
import json
import pathlib
import urllib.error
import urllib.parse
import urllib.request

try:
    import h5py
except ImportError:  # Client needs none
    h5py = None
import pandas as pd

__all__ = ["open", "Client", "Run", "Absent"]


class Absent(LookupError):
    """The store holds nothing for this: the message says what is missing."""


def open(path):
    """The results of a run: its directory, or the store.h5 in it."""
    return Run(path)


class _ShownInNotebooks:
    """The verdict, what people ask next, and the findings, as a notebook shows them. Texts of traces are escaped."""

    def _repr_html_(self):
        report = self.report
        verdict = report["verdict"]
        lines = [f"<p><strong>{html.escape(verdict['text'])}</strong></p>"]
        if verdict["next"]:
            lines.append(f"<p>Next: {html.escape(verdict['next'])}</p>")
        lines += [f"<p>{html.escape(answer)}</p>" for answer in verdict.get("answers", [])]
        rows = [f"<tr><td>{html.escape(finding['severity'])}</td><td>{html.escape(finding['title'])}</td></tr>"
                for finding in report["findings"]]
        if rows:
            lines.append(f"<table><tr><th>severity</th><th>finding</th></tr>{''.join(rows)}</table>")
        return "\n".join(lines)


class Run(_ShownInNotebooks):
    def __init__(self, path):
        path = pathlib.Path(path)
        self.path = path / "store.h5" if path.is_dir() else path
        self._store = h5py.File(self.path, "r")
        self.plot = Plots(self)

    def __repr__(self):
        return f"<nsys_explain.Run {self.path}: {len(self.tables())} tables>"

    def close(self):
        self._store.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def report(self):
        """report.json beside the store: verdict, findings, summaries."""
        return json.loads((self.path.parent / "report.json").read_text(encoding="utf-8"))

    @property
    def verdict(self):
        """What the run comes to, in one line."""
        return self.report["verdict"]["text"]

    def tables(self):
        """What each table holds, by its name."""
        groups = {name: _own(self._store, name) for name in self._store}
        return {name: group.attrs["description"] for name, group in groups.items() if "columns" in group.attrs}

    def table(self, name):
        """One table as a data frame. Missing integers make a column Int64 with <NA>."""
        if name not in self.tables():
            raise Absent(f"there is no table {name!r} in {self.path}; tables() lists those that there are")
        group = _own(self._store, name)
        columns = {column: _own(group, column) for column in group.attrs["columns"]}
        frame = pd.DataFrame({column: _values(values) for column, values in columns.items()}, columns=list(columns))
        frame.attrs["description"] = group.attrs["description"]
        frame.attrs["units"] = {column: values.attrs["unit"] for column, values in columns.items()}
        frame.attrs["meanings"] = {column: values.attrs["description"] for column, values in columns.items()}
        return frame


class Client:
    """A service that `nsys-explain-mpi serve` runs. Needs the token only where the service asks for one."""

    def __init__(self, url, token=None):
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def reports(self):
        """The names of all reports, the latest first."""
        return [report["name"] for report in self.ask("/api/v1/reports?limit=10000")["reports"]]

    def open(self, name):
        """The report of that name: has the same methods as what open(directory) gives."""
        return RemoteRun(self, name)

    def ask(self, path, **parameters):
        """The JSON answer at a path of the service. Raises Absent or PermissionError with what the service says."""
        query = "?" + urllib.parse.urlencode(parameters, doseq=True) if parameters else ""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path + query, headers=self._headers)) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            try:
                said = json.load(error)["error"]
                text = "; ".join(said[part] for part in ("problem", "what_to_do"))
            except (ValueError, KeyError):
                text = str(error)
            kinds = {401: PermissionError, 403: PermissionError, 404: Absent}
            raise kinds.get(error.code, RuntimeError)(text) from None


class RemoteRun(_ShownInNotebooks):
    """A report of a service: as Run."""

    def __init__(self, client, name):
        self._client = client
        self._name = urllib.parse.quote(name, safe="")
        self.path = f"{client.url}/reports/{self._name}"
        self.plot = Plots(self)
        client.ask(f"/api/v1/reports/{self._name}")

    def __repr__(self):
        return f"<nsys_explain.RemoteRun {self.path}>"

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def report(self):
        return self._client.ask(f"/reports/{self._name}/report.json")

    @property
    def verdict(self):
        return self._client.ask(f"/api/v1/reports/{self._name}/verdict")["verdict"]["text"]

    def tables(self):
        return {table["table"]: table["description"] for table in self._client.ask(f"/api/v1/reports/{self._name}/tables")["tables"]}

    def table(self, name, page=50_000):
        """One table as a data frame, fetched by pages."""
        path = f"/api/v1/reports/{self._name}/tables/{urllib.parse.quote(name, safe='')}"
        answer = self._client.ask(path, limit=page)
        rows = answer["values"]
        while len(rows) < answer["rows"]:
            rows += self._client.ask(path, limit=page, offset=len(rows))["values"]
        columns = answer["columns"]
        frame = pd.DataFrame({column["name"]: _column([row[c] for row in rows], column["kind"]) for c, column in enumerate(columns)},
                             columns=[column["name"] for column in columns])
        frame.attrs["description"] = answer["description"]
        frame.attrs["units"] = {column["name"]: column["unit"] for column in columns}
        frame.attrs["meanings"] = {column["name"]: column["description"] for column in columns}
        return frame


def _own(group, name):
    """What lies in the store itself: HDF5 lets a file say that a group or its values lie in other files."""
    is_own = "/" not in name and isinstance(group.get(name, getlink=True), h5py.HardLink)
    found = group[name] if is_own else None
    if isinstance(found, h5py.Dataset):
        is_own = not found.external and not found.is_virtual
    if not is_own:
        raise ValueError(f"{group.file.filename}: {name!r} would be read from another file, so it is no result of a run; "
                         "run the analysis again")
    return found


def _column(values, kind):
    if kind == "text":
        return pd.Series(values, dtype=object)
    if kind == "real":
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype="Int64" if None in values else "int64")


def _values(dataset):
    if h5py.check_string_dtype(dataset.dtype):
        return dataset.asstr()[()]
    values = dataset[()]
    if "missing_value" not in dataset.attrs:
        return values
    missing = values == dataset.attrs["missing_value"]
    return pd.arrays.IntegerArray(values, missing) if missing.any() else values


def _spans(run, spans):
    """Arrivals with the start in seconds of the span of job time in which their collective ended."""
    arrivals, instances = run.table("collective_arrivals"), run.table("collective_instances")
    ended = arrivals["instance"].map(instances.set_index("instance")["last_enter_ns"])
    width = max(1, int(ended.max() - ended.min()) // spans + 1)
    return arrivals.assign(span=(ended.min() + (ended - ended.min()) // width * width) * 1e-9)


class Plots:
    """Each draws into `axes`, or new ones, and returns them. `*_cells` and `step_lengths` are what is drawn, as a frame."""

    def __init__(self, run):
        self._run = run

    def lateness_cells(self, column="own_lateness_ns", spans=200):
        """Milliseconds by trace rank (rows) and step; where no steps are known, by span of job time in seconds."""
        if "steps" in self._run.tables():
            table, by = self._run.table("steps"), "step"
        elif len(self._run.table("collective_arrivals")) > 0:
            table, by = _spans(self._run, spans), "span"
        else:
            raise Absent("no collective was matched between trace ranks and no step is known, so nobody is late: "
                         "give the traces of all ranks over the same steps")
        return table.pivot_table(index="trace_rank", columns=by, values=column, aggfunc="sum", fill_value=0) * 1e-6

    def lateness(self, column="own_lateness_ns", axes=None):
        """Heat map by trace rank and step; column: own_lateness_ns, wait_ns or caused_wait_ns."""
        cells = self.lateness_cells(column)
        axes = _axes(axes, (12, 2 + 0.12 * len(cells)))
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="magma_r", vmin=0)
        _label(axes.set_xticks, cells.columns)
        _label(axes.set_yticks, cells.index)
        axes.set(xlabel="step" if cells.columns.name == "step" else "job time, s", ylabel="trace rank",
                 title=column.removesuffix("_ns").replace("_", " "))
        axes.figure.colorbar(image, ax=axes, label="ms")
        return axes

    def step_lengths(self):
        """Milliseconds of each step: the longest of all trace ranks."""
        if "steps" not in self._run.tables():
            raise Absent("no step is known: put an NVTX range around each step, or name yours by --phase-map")
        return self._run.table("steps").groupby("step")["duration_ns"].max() * 1e-6

    def step_times(self, axes=None):
        lengths = self.step_lengths()
        axes = _axes(axes, (12, 3))
        axes.bar(lengths.index, lengths)
        axes.axhline(lengths.median(), color="grey", linestyle="--", linewidth=1, label=f"median {lengths.median():.3f} ms")
        axes.set(xlabel="step", ylabel="ms", title="step times")
        axes.legend()
        return axes

    def wait_matrix_cells(self):
        """Milliseconds that the delays of one trace rank (rows; -1: nobody's) cost another (columns)."""
        table = self._run.table("wait_matrix")
        if len(table) == 0:
            raise Absent("nobody waited for anybody: no collective was matched between trace ranks, or nobody waited in one")
        return table.pivot_table(index="late_trace_rank", columns="waiting_trace_rank", values="cost_ns", aggfunc="sum",
                                 fill_value=0) * 1e-6

    def wait_matrix(self, axes=None):
        cells = self.wait_matrix_cells()
        axes = _axes(axes, (3 + 0.3 * cells.shape[1], 2 + 0.3 * cells.shape[0]))
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="magma_r", vmin=0)
        _label(axes.set_xticks, cells.columns)
        _label(axes.set_yticks, ["nobody's" if rank < 0 else rank for rank in cells.index])
        axes.set(xlabel="who waited", ylabel="whose delay", title="who waits for whom")
        axes.figure.colorbar(image, ax=axes, label="ms")
        return axes


def _axes(axes, size):
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt  # only pictures need it
    return plt.subplots(figsize=size, layout="constrained")[1]  # or savefig cuts labels off


def _label(set_ticks, names, most=32):
    every = max(1, -(-len(names) // most))
    shown = [f"{name:.3f}" if isinstance(name, float) else str(name) for name in list(names)[::every]]
    set_ticks(range(0, len(names), every), shown)
