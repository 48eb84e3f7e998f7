"""Finds the user's app. The only place in headrace that imports something by a name it was given.

The first that is set wins: `--app module:app`, the environment variable HEADRACE_APP, `app = "module:app"` under
`[tool.headrace]` in the pyproject.toml of the current folder or of one above it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import tomllib
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from headrace.app import Headrace

VARIABLE = "HEADRACE_APP"
_HEADRACE = Path(__file__).parents[1]
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class Spec(msgspec.Struct, frozen=True):
    """`module:app`, where it was written, and the folder of that file if it was a file."""

    text: str
    source: str
    folder: Path | None = None


def locate(option: str | None) -> Headrace:
    """The app that `option` (the value of --app) or the settings around it name.

    Raises:
        ConfigError: none is named, or it cannot be imported, or it is something else. The message names the fix.
    """
    spec = find_spec(option)
    module_name, attribute = _parts(spec)
    _look_in(Path.cwd(), spec.folder)
    return _app_in(_import(module_name, spec), attribute, spec)


def find_spec(option: str | None) -> Spec:
    """What names the app, by precedence."""
    if option:
        return Spec(option, "--app")
    if text := os.environ.get(VARIABLE):
        return Spec(text, VARIABLE)
    here = Path.cwd()
    for folder in (here, *here.parents):
        spec = _from_pyproject(folder / "pyproject.toml")
        if spec is not None:
            return spec
    raise ConfigError(
        "no app is named: give --app module:app, set HEADRACE_APP=module:app, "
        'or put app = "module:app" under [tool.headrace] in pyproject.toml'
    )


def _from_pyproject(path: Path) -> Spec | None:
    if not path.is_file():
        return None
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; mend it, or name the app with --app module:app") from error
    section = settings.get("tool", {}).get("headrace", {})
    text = section.get("app") if isinstance(section, dict) else None
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigError(f'app under [tool.headrace] in {path} is {text!r}: write app = "module:app"')
    return Spec(text, str(path), path.parent)


def _parts(spec: Spec) -> tuple[str, str]:
    module, colon, attribute = spec.text.strip().partition(":")
    if module.endswith(".py") or "/" in module or os.sep in module:
        dotted = module.removesuffix(".py").replace(os.sep, "/").strip("./").replace("/", ".")
        problem = f"a path: write it as a module, {dotted}:{attribute or 'app'}"
    elif not colon:
        problem = f"without an app: name it too, such as {module or 'module'}:app"
    elif not _NAME.fullmatch(module) or not _NAME.fullmatch(attribute):
        problem = "not module:app: write it like shop.jobs:app"
    else:
        return module, attribute
    raise ConfigError(f"{spec.source} is {spec.text!r}, {problem}")


def _look_in(*folders: Path | None) -> None:
    """Modules are found from the current folder, as `python -m` would, and beside the pyproject.toml."""
    for folder in reversed(folders):
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def _import(name: str, spec: Spec) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ConfigError(
                f"{spec.source} names {spec.text!r}, but there is no module {error.name!r} in {Path.cwd()} "
                "or on Python's path: run headrace in the folder that holds it, install the package, or set PYTHONPATH"
            ) from error
        raise _failed(name, spec, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, spec, error) from error


def _failed(name: str, spec: Spec, error: BaseException) -> ConfigError:
    # the user's own line, not the one of headrace or of the import system that raised
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_passing(frame.filename)]
    place = f" ({frames[-1].filename} line {frames[-1].lineno})" if frames else ""
    kind = f"{type(error).__name__}: {error}" if isinstance(error, HeadraceError) else ""
    what = kind or traceback.format_exception_only(error)[-1].strip()
    return ConfigError(
        f"{spec.source} names {spec.text!r}, but importing {name} fails: {what}{place}; --verbose shows the traceback"
    )


def _is_passing(file: str) -> bool:
    return "importlib" in file or Path(file).is_relative_to(_HEADRACE)


def _app_in(module: ModuleType, attribute: str, spec: Spec) -> Headrace:
    from headrace.app import Headrace

    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Headrace):
        return found
    kind = type(found).__name__
    problem = f"there is no {attribute!r} in it" if found is None else f"{attribute!r} is of type {kind}, not Headrace"
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, Headrace))
    fix = f"use {module.__name__}:{apps[0]}" if apps else 'create one there: app = Headrace("sqlite:///jobs.db")'
    raise ConfigError(f"{spec.source} names {spec.text!r}, but {problem}: {fix}")
