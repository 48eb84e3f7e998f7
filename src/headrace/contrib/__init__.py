"""One package for each framework: import the one you use, as in `headrace.contrib.fastapi`."""
