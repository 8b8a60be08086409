"""Loss against budget, for everybody and for segments: what is to do, where it is done, and what came of it."""
