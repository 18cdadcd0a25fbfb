"""One attempt of a step in a pod, from the pod's creation to its deletion."""
