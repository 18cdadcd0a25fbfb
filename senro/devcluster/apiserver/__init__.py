"""The apiserver: connections, requests, rights, validation and the stored objects' answers."""
