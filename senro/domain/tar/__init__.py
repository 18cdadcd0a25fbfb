"""The archives of transfers (docs/design/transfers.md#archive), without any I/O.

`writer` makes the bytes of a member. `reader` parses bytes into events and refuses what must not be unpacked.
`admission` has the rules between members.
"""
