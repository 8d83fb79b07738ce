"""Whether pyarrow, pandas and DuckDB read the Parquet files that ndtrain writes as its CSV files say it: predictions, and
labels of a database.

usage: parquet.py NDTRAIN MODEL PHOTOS DB       DB: sqlite:FILE with labels; needs pyarrow, pandas and duckdb
"""
import os
import subprocess
import sys
import tempfile

import duckdb
import pandas
import pyarrow.parquet


def differs(name, ours, csv):
    """`csv`: as pandas read it; the same types are asked of both."""
    problems = []
    if list(ours.columns) != list(csv.columns) or len(ours) != len(csv):
        return [f"{name}: {list(ours.columns)}, {len(ours)} rows; {list(csv.columns)}, {len(csv)} rows"]
    for column in ours.columns:
        a, b = ours[column], csv[column]
        if column == "time":
            a = (a - pandas.Timestamp("1970-01-01", tz=a.dt.tz)) // pandas.Timedelta(seconds=1)
        if column == "at_random":
            b = b.fillna(0).astype(bool)
        if column == "score":
            same = ((a - b).abs() < 1e-6) | (a.isna() & b.isna())
        else:
            same = (a.astype(str) == b.astype(str)) | (a.isna() & b.isna())
        if not same.all():
            problems.append(f"{name}: {column}: {a[~same].iloc[0]} for {b[~same].iloc[0]}")
    return problems


def main():
    program, model, photos, database = sys.argv[1:]
    problems = []
    with tempfile.TemporaryDirectory() as out:
        for name, command in [("predictions", ["predict", model, photos]), ("labels", ["labels", "export", "--db", database])]:
            parquet, csv = os.path.join(out, name + ".parquet"), os.path.join(out, name + ".csv")
            for path in (parquet, csv):
                subprocess.run([program, *command, "-q", "-o", path], check=True, stdout=subprocess.DEVNULL)
            said = pandas.read_csv(csv, dtype={"version": str, "content": str, "store": str})
            by_arrow = pyarrow.parquet.read_table(parquet)
            problems += differs(name + " by pyarrow", by_arrow.to_pandas(), said)
            problems += differs(name + " by DuckDB", duckdb.sql(f"SELECT * FROM '{parquet}'").df(), said)
            print(f"{name}: {by_arrow.num_rows} rows, {os.path.getsize(parquet)} bytes, {os.path.getsize(csv)} as CSV;"
                  f" {', '.join(f'{f.name} {f.type}' for f in by_arrow.schema)}")
    print("\n".join(problems) or f"the same: pyarrow {pyarrow.__version__}, pandas {pandas.__version__}, DuckDB {duckdb.__version__}")
    sys.exit(bool(problems))


main()
