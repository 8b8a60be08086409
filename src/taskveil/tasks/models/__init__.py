"""Models as tasks: torch modules, scikit-learn estimators and ONNX files, taken exactly or refused."""
