"""The interfaces that the application uses. Every implementation passes a suite of tests/contract/ports."""
