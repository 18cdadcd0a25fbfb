"""What senro knows and decides, computed from arguments alone: no I/O, no clock, no randomness, no environment."""
