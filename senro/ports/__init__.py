"""What the application needs of the world: small protocols, each held by a suite in tests/contract/ports."""
