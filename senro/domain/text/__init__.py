"""Log lines, redaction, printable text, ages."""
