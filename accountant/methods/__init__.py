"""Composition methods, one a file; ``bound`` shows all and certifies the best."""
