"""Reads exports of views with every reader, and holds their rows to the JSON Lines.

Takes pairs of folders, the Parquet form and the JSON Lines form of one view,
and prints one JSON object: folder -> reader -> "" or what is wrong. A row that
a reader gives is a row of the lines: JSON text that stands for values is read,
and an image stands for its path, after its bytes were held to its digest.
"""

import glob
import hashlib
import json
import os
import sys
import tempfile

VALUES = ("arguments", "tools")


def plain(v, values, key=""):
    """A value as the lines have it."""
    if key == "images" and v is not None:
        return [picture(i) for i in v]
    if isinstance(v, dict):
        return {k: plain(e, values, k) for k, e in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(e, values, key) for e in v]
    if values and key in VALUES and isinstance(v, str):
        return json.loads(v)
    return v


def picture(i):
    if isinstance(i, str):
        return i
    digest = hashlib.sha256(i["bytes"]).hexdigest()
    if digest not in i["path"]:
        raise ValueError(f"an image at {i['path']} has the digest {digest}")
    # The datasets library may keep the last part of a path alone.
    return "images/" + os.path.basename(i["path"])


def files(folder, split, form):
    found = sorted(glob.glob(f"{folder}/data/{split}-*.{form}") + glob.glob(f"{folder}/{split}/*.{form}"))
    if not found:
        raise ValueError(f"no {form} files of {split} in {folder}")
    return found


def lines(folder, split):
    out = []
    for path in files(folder, split, "jsonl"):
        with open(path, encoding="utf-8") as f:
            out += [json.loads(line) for line in f]
    return out


def pyarrow(folder, split):
    import pyarrow.parquet as pq

    return [row for path in files(folder, split, "parquet") for row in pq.read_table(path).to_pylist()]


def polars(folder, split):
    import polars

    return [row for path in files(folder, split, "parquet") for row in polars.read_parquet(path).to_dicts()]


def duckdb(folder, split):
    import duckdb

    r = duckdb.connect().execute("select * from read_parquet(?)", [files(folder, split, "parquet")])
    columns = [d[0] for d in r.description]
    return [dict(zip(columns, row)) for row in r.fetchall()]


def hub(folder, split):
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        t = datasets.load_dataset(folder, split=split, cache_dir=cache)
        if "images" in t.features and "Image" in repr(t.features["images"]):
            t = t.cast_column("images", datasets.List(datasets.Image(decode=False)))
        return list(t)


def wrong(got, want, values):
    if len(got) != len(want):
        return f"{len(got)} rows, want {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        if plain(g, values) != w:
            return f"row {i} is {plain(g, values)!r:.900}, want {w!r:.900}"
    return ""


def main(folders):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    out = {}
    for parquet, jsonl in zip(folders[::2], folders[1::2]):
        for split in ("train", "test"):
            want = lines(jsonl, split)
            # With --tool-args object the lines hold values, and Parquet text.
            values = "object" in os.path.basename(parquet)
            readers = {
                "pyarrow": lambda: pyarrow(parquet, split), "polars": lambda: polars(parquet, split),
                "duckdb": lambda: duckdb(parquet, split), "datasets": lambda: hub(parquet, split),
                "datasets of lines": lambda: hub(jsonl, split),
            }
            for name, read in readers.items():
                try:
                    # The datasets library has read the values itself.
                    problem = wrong(read(), want, values and not name.startswith("datasets"))
                except Exception as e:  # every fault of a reader is a finding
                    problem = f"{type(e).__name__}: {e} {e.__cause__!r}"[:1500]
                out.setdefault(f"{os.path.basename(parquet)} {split}", {})[name] = problem
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
