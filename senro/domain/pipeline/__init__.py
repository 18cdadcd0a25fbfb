"""The values of a pipeline file. Standard library only, since a pod may import the same file."""
