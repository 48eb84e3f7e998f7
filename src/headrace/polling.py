"""Tasks that ask an upstream again and again until its answer is final."""
