"""A bill of materials (CycloneDX 1.5) of everything in a lock file: `python .ci/sbom.py LOCK OUT`.

It needs no network: names, versions and hashes stand in the lock.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill(lock: str) -> dict[str, object]:
    """The components that a lock file names, with the hashes of their files."""
    components: list[dict[str, object]] = []
    hashes: list[dict[str, str]] = []
    for line in lock.splitlines():
        package = _PACKAGE.match(line)
        if package:
            name, version = package[1].lower(), package[2]
            hashes = []
            components.append(
                {
                    "type": "library",
                    "name": name,
                    "version": version,
                    "purl": f"pkg:pypi/{name}@{version}",
                    "hashes": hashes,
                }
            )
        hashes += [{"alg": "SHA-256", "content": found} for found in _HASH.findall(line)]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    found = bill(source.read_text())
    if not found["components"]:
        sys.exit(f"{source} names no packages")
    target.write_text(json.dumps(found, indent=1) + "\n")
