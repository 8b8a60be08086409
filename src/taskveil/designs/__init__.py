"""How encoder, mechanism and decoder are found together. `designing` is the front door."""
