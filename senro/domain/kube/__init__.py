"""The Kubernetes API's own things: pods, events, statuses, names, paths, the exec protocol."""
