"""Draw the screens of the documentation: python docs/images/screens.py.

Commands run in a real terminal (tmux), and a notebook's cell is shown in a real browser (Chromium).
Look at every picture before it is committed.
"""

import html
import io
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageChops
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import foreclick as fc
from tests import docs_files

HERE = Path(__file__).parents[1] / "pictures"
FORECLICK = f"{shlex.quote(sys.executable)} -m foreclick"
LIGHT = TerminalTheme(
    (255, 255, 255),
    (32, 33, 36),
    [(0, 0, 0), (176, 0, 32), (0, 110, 70), (128, 96, 0), (0, 80, 160), (110, 0, 110),
     (0, 100, 110), (90, 90, 90)],
)  # fmt: skip
EVALUATE = "evaluate tally.parquet candidate.parquet -m clicks@3 -m dcg@5"
FIRST = (
    "evaluate my-shop/log.parquet my-shop/better.parquet \\\n"
    "    --context query --period day --unit user"
)
SCREENS = {
    ("first", 80): FIRST,
    ("evaluate", 80): EVALUATE,
    ("evaluate", 120): EVALUATE,
    ("table", 120): f"{EVALUATE} --format table",
    ("check", 80): "check tally.parquet",
    ("backtest", 80): "backtest tally.parquet -m clicks@3",
    ("support", 80): "check tally.parquet --candidate candidate.parquet",
    ("help", 80): "--help",
}
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars", "--force-device-scale-factor=1")  # fmt: skip


def main() -> None:
    """Write every screen to docs/pictures."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        shop = docs_files.shop(folder)
        tally = fc.tally(shop["log"])
        tally.write_parquet(folder / "tally.parquet")
        simulate = [*shlex.split(FORECLICK), "simulate", "my-shop", "--world", "shop"]
        subprocess.run(simulate, cwd=folder, check=True, capture_output=True)
        for (name, width), words in SCREENS.items():
            page = _as_page(_typed(words, width, folder), width)
            _drawn(page, folder, f"screen-{name}-{width}", 9 * width + 40)
        found = fc.evaluate(tally, shop["candidate"], metrics=["clicks@3", "dcg@5"])
        shown = found._repr_html_().replace("<details>", "<details open>")
        cell = f"<style>body{{font:15px sans-serif;margin:20px}}</style>{shown}"
        _drawn(cell, folder, "screen-notebook", 1100)


def _typed(words: str, width: int, folder: Path) -> str:
    """What a terminal of this width shows after a command."""
    tmux = ("tmux", "-L", "foreclick-docs")
    subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
    subprocess.run(
        [*tmux, "new", "-d", "-x", str(width), "-y", "48", "-c", str(folder)], check=True
    )
    line = f"clear; PS1=; {FORECLICK} {words}; touch done"
    subprocess.run([*tmux, "send-keys", line, "Enter"], check=True)
    while not (folder / "done").exists():
        time.sleep(0.2)
    (folder / "done").unlink()
    shown = subprocess.run([*tmux, "capture-pane", "-e", "-p"], capture_output=True, check=True)
    subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
    return f"$ foreclick {words}\n\n{shown.stdout.decode().strip(chr(10))}"


def _as_page(shown: str, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.from_ansi(shown), soft_wrap=True)
    body = console.export_html(theme=LIGHT, inline_styles=True, code_format="<pre>{code}</pre>")
    style = "font:15px 'DejaVu Sans Mono',monospace;line-height:1.25;margin:20px;color:#202124"
    return f"<meta charset=utf-8><body style={html.escape(style)!r}>{body}"


def _drawn(page: str, folder: Path, name: str, width: int) -> None:
    """A page as a picture, cut to what is on it."""
    source = folder / f"{name}.html"
    source.write_text(page)
    target = HERE / f"{name}.png"
    browser = shutil.which("chromium") or "chromium"
    window = f"--window-size={width},900"
    subprocess.run(
        [browser, *QUIET, f"--user-data-dir={folder / 'browser'}", window,
         f"--screenshot={target}", source.as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip
    picture = Image.open(target).convert("RGB")
    empty = Image.new("RGB", picture.size, (255, 255, 255))
    bottom = (ImageChops.difference(picture, empty).getbbox() or (0, 0, 0, 0))[3]
    cut = picture.crop((0, 0, picture.width, bottom + 20))
    cut.quantize(32).save(target, optimize=True)


if __name__ == "__main__":
    main()
