"""What every use case works with: the ports, the recorder of events, and shutdown."""
