#!/bin/sh
# How fast is it here? Makes its inputs, measures side by side in one run, prints ratios and writes all figures as JSON.
#
#   jobs/bench.sh [--build DIR] [--size small|full] [--repeat N] [--out FILE.json] [--against FILE.json]
#
# full: an export of about 2 GB, 64 traces of 40 MB, 1,024 ranks x 2,000 collectives, records of 10,000 ranks (needs
# 10 GB of disk and some twenty minutes); small: a tenth of it. Other work on the machine disturbs absolute times: only the ratios count. Needs a
# release build (cmake --preset release, or jobs/demo.sh) and what `jobs/install-packages.sh test` installs; numpy, the
# sqlite3 shell and mpirun where they exist.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${NSYS_EXPLAIN_PYTHON:-python3}" "$here/bench.py" "$@"
