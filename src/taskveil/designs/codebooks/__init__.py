"""Reports that are code numbers: for linear tasks and for models."""
