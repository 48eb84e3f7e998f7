#!/bin/sh
# Make .venv hold what a group of requirements asks for: venv.sh demo | test
# Does nothing when the environment is current. Uses uv where there is one, else pip.
set -eu
cd "$(dirname "$0")/.."

group=${1:-test}
venv=.venv
lock=.venv.lock
stamp=$venv/.headrace

say() { printf '%s\n' "headrace: $*"; }
die() { printf '%s\n' "headrace: $*" >&2; exit 1; }

digest() {  # of all that decides what the environment holds
    cat "requirements/$1.txt" requirements/uv.txt pyproject.toml | cksum | tr ' ' '-'
}

healthy() {  # scripts in an environment carry its path, so one that was moved or copied is made anew
    "$venv/bin/python" -c '' 2>/dev/null && [ "$(cat "$venv/.headrace-home" 2>/dev/null)" = "$(pwd)" ]
}

current() {  # the test group holds all of the demo group
    [ -f "$stamp" ] && healthy || return 1
    have=$(cat "$stamp")
    [ "$have" = "test $(digest test)" ] || [ "$have" = "$group $(digest "$group")" ]
}

usable() {  # a name on PATH may be a shim without an interpreter behind it, so it is run
    "$1" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1
}

find_python() {
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if usable "$name"; then command -v "$name"; return; fi
    done
}

take_lock() {  # mkdir is atomic everywhere; flock is not on every machine
    waited=0
    until mkdir "$lock" 2>/dev/null; do
        owner=$(cat "$lock/pid" 2>/dev/null || true)
        if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then rm -rf "$lock"; continue; fi
        [ "$waited" -ne 0 ] || say "another run is preparing $venv, waiting"
        waited=$((waited + 1))
        [ "$waited" -lt 300 ] || die "$lock has been held for 5 minutes; remove it if nothing is running"
        sleep 1
    done
    echo $$ >"$lock/pid"
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 130' INT TERM HUP
}

create() {
    python=$(find_python)
    [ -n "$python" ] || [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is not a Python 3.11 to 3.14"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --clear --python "${python:->=3.11,<3.15}" "$venv"
    else
        create_with_venv
    fi
    pwd >"$venv/.headrace-home"
}

create_with_venv() {
    [ -n "$python" ] || die "no Python 3.11 to 3.14 found. Install one, or name it: make PYTHON=/path/to/python3.12 ..."
    "$python" -c 'import venv, ensurepip' 2>/dev/null || die "$python cannot make virtual environments.
On Debian and Ubuntu: apt install python3-venv (or the package of that version, such as python3.12-venv)."
    "$python" -m venv --clear "$venv"
}

install() {
    uv=$(command -v uv || true)
    pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
    if [ -z "$uv" ]; then
        if [ ! -x "$venv/bin/uv" ]; then
            "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
            $pip install --require-hashes -r requirements/uv.txt || say "no uv for this machine, using pip"
        fi
        [ ! -x "$venv/bin/uv" ] || uv=$venv/bin/uv
    fi
    if [ -n "$uv" ]; then
        into="--quiet --python $venv/bin/python"
        keep=""
        [ "$uv" != "$venv/bin/uv" ] || keep=requirements/uv.txt
        # shellcheck disable=SC2086
        "$uv" pip sync $into --require-hashes "requirements/$group.txt" $keep
        # shellcheck disable=SC2086
        "$uv" pip install $into --no-deps --no-build-isolation -e .
    else
        $pip install --require-hashes -r "requirements/$group.txt"
        $pip install --no-deps --no-build-isolation -e .
    fi
}

if current; then exit 0; fi
take_lock
if current; then exit 0; fi
# the tests' packages include the demo's: a demo must not take away what the tests need
case "$(cat "$stamp" 2>/dev/null || true)" in test\ *) group=test ;; esac
say "preparing $venv for $group"
rm -f "$stamp"
healthy || create
install
echo "$group $(digest "$group")" >"$stamp"
say "$venv is ready ($("$venv/bin/python" --version))"
