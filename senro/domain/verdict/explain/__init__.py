"""Sentences for people about what a pod shows."""
