"""Each peer has its own virtual environment or node_modules, made once by pip or npm, with exact versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.catalog import Variant


class NotInstalled(Exception):
    """A peer cannot be had on this machine."""


def install(variant: Variant, work: Path) -> dict[str, str]:
    """Make the variant's environment unless it is there; answers the versions in it, by name.

    Raises:
        NotInstalled: says what is missing.
    """
    if variant.ours:
        return _versions(Path(sys.executable))
    root = work / variant.home
    stamp = root / "installed.json"
    wanted = [variant.python, *variant.requirements]
    if stamp.exists():
        installed = json.loads(stamp.read_text())
        if installed["wanted"] == wanted:
            return dict(installed["versions"])
    print(f"{variant.home}: installing {', '.join(variant.requirements)}", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    try:
        versions = _node(variant, root) if variant.core == "node" else _python(variant, root)
    except subprocess.CalledProcessError as error:
        raise NotInstalled(f"{' '.join(map(str, error.cmd[:4]))} ... failed: {_last_line(error.stderr)}") from error
    stamp.write_text(json.dumps({"wanted": wanted, "versions": versions}))
    return versions


def runtime(variant: Variant, work: Path) -> str:
    """The program that runs the variant's script."""
    if variant.core == "node":
        return "node"
    return sys.executable if variant.ours else str(work / variant.home / "venv" / "bin" / "python")


def _last_line(text: str | None) -> str:
    return (text or "").strip().rpartition("\n")[2][:300]


def _run(command: list[str | Path], cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def _python(variant: Variant, root: Path) -> dict[str, str]:
    interpreter = _interpreter(variant.python) if variant.python else Path(sys.executable)
    _run([interpreter, "-m", "venv", root / "venv"])
    python = root / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *variant.requirements])
    return _versions(python)


def _versions(python: Path) -> dict[str, str]:
    listing = _run([python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"])
    versions = {entry["name"].lower(): entry["version"] for entry in json.loads(listing)}
    return versions | {"python": _run([python, "-V"]).split()[1]}


def _node(variant: Variant, root: Path) -> dict[str, str]:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NotInstalled(f"it needs {program}, which is not on PATH")
    (root / "package.json").write_text('{"private": true}')
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund", *variant.requirements], cwd=root)
    listing = json.loads(_run(["npm", "ls", "--json", "--depth=0"], cwd=root))
    versions = {name: entry["version"] for name, entry in listing["dependencies"].items()}
    return versions | {"node": _run(["node", "--version"]).strip()}


def _interpreter(name: str) -> Path:
    """An interpreter such as python3.13: the variable PYTHON3_13, else from PATH, else one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = pyenv.glob(f"versions/{name.removeprefix('python')}.*/bin/{name}")
    candidates = [os.environ.get(name.upper().replace(".", "_")), shutil.which(name), *map(str, sorted(versions))]
    for candidate in candidates:
        # a name on PATH may be a shim without an interpreter behind it, so it is run
        if candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0:
            return Path(candidate)
    raise NotInstalled(f"it needs {name}, which is not on PATH (or name it in {name.upper().replace('.', '_')})")
