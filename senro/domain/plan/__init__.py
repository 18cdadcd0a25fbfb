"""Plans: a pipeline that was validated and frozen, the order of its steps, and its document."""
