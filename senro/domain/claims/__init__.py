"""How a PersistentVolumeClaim is held by a Lease."""
