"""Events, states and outcomes of runs."""
