"""The dossier of a release: what the person must know who decides whether data may be collected with it."""
