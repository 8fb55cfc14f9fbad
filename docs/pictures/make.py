"""The README's picture of the report: ``python docs/pictures/make.py [FOLDER]`` writes ``report.png`` beside it.

FOLDER is what ``affidavit demo`` left (by default ``demo-run``, which ``make demo`` makes). The page is
drawn by Chromium, without a network and in light colours, and kept in 64 of them. Needs ``chromium`` on the path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

WIDTH, HEIGHT = 1060, 850
SHARPER = 1.5
PICTURE = Path(__file__).with_name("report.png")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--blink-settings=preferredColorScheme=1",
]


def draw(page: Path, picture: Path) -> None:
    """The first screen of ``page``."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        sys.exit("There is no Chromium on the path: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "drawn.png"
        size = [f"--window-size={WIDTH},{HEIGHT}", f"--force-device-scale-factor={SHARPER}"]
        where = [f"--user-data-dir={folder}/profile", f"--screenshot={drawn}", page.resolve().as_uri()]
        subprocess.run([browser, *QUIET, *size, *where], check=True, capture_output=True, timeout=120)
        Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    report = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-run") / "report.html"
    if not report.exists():
        sys.exit(f"{report} is not there: make demo")
    draw(report, PICTURE)
