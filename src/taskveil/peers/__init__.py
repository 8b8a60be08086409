"""What designs are compared with.

`baselines.py`                 the published ones for linear tasks, with the same bounding and the same exact noise
`responses.py`, `laplace.py`   what a user could write in five lines: the task's own model on the device
                               (`own_model.py`), and a textbook mechanism after it
`literature.py`                mechanisms for population means, as formulas
`limits/`                      losses that no ε-LDP report can go below

All but the limits are methods like any other: `taskveil.sweep(..., methods=["auto", "label_response"])`.
"""
