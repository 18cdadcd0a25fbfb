"""A run: its events, the state that they add up to, and the history of runs."""
