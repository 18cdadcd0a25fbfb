"""Entry points of the library, and the composition root, which connects the application to the adapters."""
