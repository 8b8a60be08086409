"""What a user could write in five lines: the task's own model on the device, and a textbook mechanism after it.

They are methods like any other, with the same exact mechanisms, so that designs can be compared with them:
`taskveil.sweep(..., methods=["auto", "label_response"])`.
"""
