"""Other people's models as frozen functions, taken exactly or refused."""
