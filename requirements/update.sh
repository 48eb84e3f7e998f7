#!/bin/sh
# Resolve requirements/*.in again and write the hashed requirements/*.txt.
# Index addresses are left out, so the files serve the public index and any mirror of it alike.
set -eu
cd "$(dirname "$0")"
UV=${UV:-uv}
for group in uv base demo test; do
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-emit-find-links --upgrade \
        --output-file "$group.txt" "$group.in"
done
