"""A marketplace's checkout: a web shop, its background jobs, the world around it, and a director who breaks things."""
