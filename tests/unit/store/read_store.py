"""Reads a store the way a notebook does, and compares it with what store_writer_test.cpp wrote."""
import sys

import h5py
import pandas


def main(path):
    # The three lines a user needs (docs/outputs.md, "The store"):
    with h5py.File(path, "r") as store:
        table = store["collective_arrivals"]
        frame = pandas.DataFrame({name: column.asstr()[:] if h5py.check_string_dtype(column.dtype) else column[:]
                                  for name, column in table.items()})

        assert list(frame.columns) == ["instance", "wait_ns", "share", "timing_source", "a_note"], list(frame.columns)
        assert list(table.attrs["columns"]) == list(frame.columns), list(table.attrs["columns"])
        assert table.attrs["description"] == "Arrivals, für Tests"
        assert table["wait_ns"].attrs["unit"] == "ns"
        assert table["wait_ns"].attrs["description"] == "time spent waiting"
        assert table["wait_ns"].attrs["missing_value"] == -2**63
        assert [table[name].dtype.str for name in table] == ["<i8", "<i8", "<f8", "|S7", "|O"]
        assert h5py.check_string_dtype(table["timing_source"].dtype).encoding == "utf-8"
        assert table["wait_ns"].chunks is None and table["wait_ns"].shape == (3,)  # short: in the header
        assert store["run"].attrs["tool_version"] == "1.2.3" and store["run"].attrs["tool_ranks"] == 4

    assert frame["instance"].tolist() == [0, 1, 2]
    assert frame["wait_ns"].tolist() == [-1, 9223372036854775807, -9223372036854775808]
    assert frame["share"].tolist()[:2] == [0.25, -0.0] and pandas.isna(frame["share"][2])
    assert frame["timing_source"].tolist() == ["kernel", "", "größe"]
    assert frame["a_note"].tolist() == ["", "two\nlines", "λ" * 3000]
    print("read_store.py: ok")


if __name__ == "__main__":
    main(sys.argv[1])
