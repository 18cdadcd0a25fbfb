"""The manifests of an attempt: its pod and its Secret."""
