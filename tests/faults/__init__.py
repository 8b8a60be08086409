"""What goes wrong in the field, done to a real collector on purpose: `python tests/faults/run.py` prints the table.

`harness` runs the collector as a process of its own, `sending` speaks to it and keeps a diary of what was acknowledged,
`stored` reads the database behind the collector's back and holds it against the diary. Each fault is a module with one
function per case that returns a `Row` of the table; `broken` is a collector that does everything wrong, so that tests
can see every check fail.
"""
