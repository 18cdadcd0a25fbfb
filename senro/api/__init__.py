"""Entry points of the library, and the composition root that joins the application to the adapters."""
