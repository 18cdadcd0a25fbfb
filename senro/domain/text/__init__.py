"""Text: log lines, redaction, printable text, ages."""
