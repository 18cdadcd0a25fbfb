"""How each field of a pod or an event is read as evidence."""
