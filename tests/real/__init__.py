"""Real logs, where they are at hand.

They may be used but not passed on, so they lie beside the repository, or where FORECLICK_DATA
says; without them these tests are skipped.
"""

import os
from pathlib import Path

DATA = Path(os.environ.get("FORECLICK_DATA") or Path(__file__).parents[3] / "shared" / "data")
