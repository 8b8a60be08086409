"""The columns of a record: their schema, how it is inferred, tables of natural values, and the numbers they become."""
