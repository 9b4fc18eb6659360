"""The pages of `nsys-explain-mpi serve` in a real browser: starts a service, then hands it to service.mjs. Skipped, loudly, without
Chromium, Node.js or the packages of package-lock.json."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from test_report import CHROMIUM, HERE, MODULES, PLANTED, SYNTH, TOOL, explain, figures, plant_counters, skip

TOKEN = "0123456789abcdef0123456789abcdef"
HOSTILE = "<img src=x onerror=window.harmed=1>"


def main():
    if CHROMIUM is None:
        skip("there is no Chromium")
    if shutil.which("node") is None or not (MODULES / "node_modules" / "playwright-core").exists():
        skip("Node.js or playwright-core is missing (npm ci was not run)")
    root = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-browser-"))
    service = None
    try:
        job = root / "job"
        subprocess.run([SYNTH, "--out", job, "--nodes", "2", "--seed", "2", "--steps", "8", "--metrics", "nvlink", "--fault", "slow_gpu:rank=5,factor=1.3"], check=True,
                       stdout=subprocess.DEVNULL)
        sampled = plant_counters(sorted(job.glob("*.sqlite"))[5])
        explain([job], root / "reports" / "after")
        for name in ("before", HOSTILE):
            shutil.copytree(root / "reports" / "after", root / "reports" / name)
        sound = root / "sound"
        subprocess.run([SYNTH, "--out", sound, "--nodes", "2", "--seed", "2", "--steps", "8"], check=True, stdout=subprocess.DEVNULL)
        explain([sound], root / "fixed")
        token = root / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        service = subprocess.Popen([TOOL, "serve", root / "reports", "--listen", "127.0.0.1:0", "--token-file", token], stdout=subprocess.PIPE, text=True)
        url = "http://127.0.0.1:" + re.search(r"127\.0\.0\.1:(\d+)", service.stdout.readline()).group(1)
        given = {"chromium": CHROMIUM, "url": url, "token": TOKEN, "hostile": HOSTILE, "files": [str(path) for path in sorted(job.glob("*.sqlite"))],
                 "sampled": sampled, "planted": PLANTED,
                 "stores": [str(root / "fixed" / "store.h5"), str(root / "reports" / "after" / "store.h5")],
                 "dashboards": [figures(root / "fixed"), figures(root / "reports" / "after")]}
        sys.exit(subprocess.run(["node", str(HERE / "service.mjs"), str(MODULES), json.dumps(given)], timeout=200).returncode)
    finally:
        if service:
            service.terminate()
            service.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
