"""The use cases: build, run, the attempt of a step in a pod; their wiring; the command line."""
