"""`python -m headrace.cli`, where the script `headrace` is not on the path."""

from headrace.cli import main

main()
