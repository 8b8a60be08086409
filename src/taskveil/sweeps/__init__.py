"""Loss against budget, for everybody and for segments: the list of designs, where they run, and the results."""
