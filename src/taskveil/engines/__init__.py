"""The same work as on one record, over tables that do not fit in memory."""
