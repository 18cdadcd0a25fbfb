"""What a pipeline file writes down. Standard library only: a pod imports the same file."""
