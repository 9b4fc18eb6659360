#!/usr/bin/env python3
"""Makes the pictures of docs/images from the job of jobs/demo.sh; as a test it makes them elsewhere and looks whether they
show anything. Skipped, loudly, without Chromium.

    NSYS_EXPLAIN_TOOL=... NSYS_EXPLAIN_SYNTH=... tests/browser/pictures.py [--write]
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "images"
# Name, group of the page (without scrolling: pictures of what was scrolled to are shifted), size of the window.
PICTURES = [("report.png", "overview", (1400, 1000)), ("timeline.png", "moments", (1400, 560))]
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def skip(reason):
    print(f"SKIPPED: {reason}: no picture was made")
    sys.exit(77)


def demo(root):
    """report.html of the demo."""
    subprocess.run([os.environ["NSYS_EXPLAIN_SYNTH"], "--out", root / "traces", "--nodes", "2", "--gpus-per-node", "4",
                    "--fault", "slow_gpu:rank=5,factor=1.3", "--seed", "1"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.environ["NSYS_EXPLAIN_TOOL"], root / "traces", "--out", root / "report", "--quiet"], check=True)
    page = root / "report" / "report.html"
    if not page.exists():
        skip("the tool was built without npm, so there is no report.html")
    return page


def take(page, part, size, picture):
    # Virtual time: what the page does by and by is done when the picture is taken, however slow the machine.
    subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-prefers-reduced-motion",
                    "--disable-background-networking", "--virtual-time-budget=5000", f"--user-data-dir={picture.parent / 'profile'}", f"--screenshot={picture}",
                    f"--window-size={size[0]},{size[1]}", f"file://{page}#{part}"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)


def check(picture, size):
    content = picture.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n", picture
    assert struct.unpack(">II", content[16:24]) == size, f"{picture}: {struct.unpack('>II', content[16:24])}"
    # An empty page of this size takes some 8 kB.
    assert 20_000 < len(content) < 300_000, f"{picture}: {len(content)} bytes"


def main():
    if CHROMIUM is None:
        skip("there is no Chromium")
    root = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-pictures-"))
    try:
        page = demo(root)
        for name, part, size in PICTURES:
            take(page, part, size, root / name)
            check(root / name, size)
            if "--write" in sys.argv[1:]:
                shutil.copyfile(root / name, IMAGES / name)
        missing = [name for name, *_ in PICTURES if not (IMAGES / name).exists()]
        assert missing == [], f"docs/images lacks {missing}: run with --write"
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
