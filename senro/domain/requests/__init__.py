"""Which requests to the apiserver may be repeated, and what became of a create."""
