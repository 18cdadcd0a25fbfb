"""The ports, carried out against the real world. Adapters import ports and domain, never each other."""
