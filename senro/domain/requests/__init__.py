"""Requests to the apiserver: which of them may be repeated, and after how long."""
