"""Work on many rows: tables that do not fit in memory, folders of files, and Ray clusters that share the work."""
