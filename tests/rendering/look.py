"""A page in a real browser: checked by axe-core, and photographed, where node and Chromium are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

MODULES = Path(os.environ.get("LOOK_MODULES", ".cache/look/node_modules"))
SCRIPT = Path(__file__).with_name("look.cjs")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def tools() -> tuple[str, str] | None:
    """Node and a browser, if both are here and node has what the script needs."""
    node = shutil.which("node")
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    needed = ("playwright-core", "axe-core")
    if node is None or browser is None or not all((MODULES / name).exists() for name in needed):
        return None
    return node, browser


def photograph(page: Path, *, pictures: bool = True) -> subprocess.CompletedProcess[str]:
    """Pictures of a page beside it; fails for serious faults, requests, and what is too wide."""
    found = tools()
    if found is None:
        sys.exit("node, Chromium or the node modules playwright-core and axe-core are missing")
    node, browser = found
    command = [node, str(SCRIPT), browser, str(page.resolve()), *(["pictures"] if pictures else [])]
    environment = os.environ | {"NODE_PATH": str(MODULES.resolve())}
    return subprocess.run(command, env=environment, check=False, text=True, capture_output=True)
