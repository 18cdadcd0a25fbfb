"""Requests to the apiserver: which of them may be repeated, after how long, and when a failure is final."""
