"""`python -m headrace`, where the script `headrace` is not on the path."""

from headrace.cli import main

if __name__ == "__main__":
    main()
