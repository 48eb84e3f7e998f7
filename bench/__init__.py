"""The benchmark: `python -m bench`. See README.md beside this file."""
