"""The files between the rooms: what a design writes, devices read and servers load."""
