"""What the data is for, and what a mistake costs."""

from taskveil.tasks.task import LinearTask, LossName, ModelTask, MultiTask, Task, as_linear, check_task, take_labels

__all__ = ["LinearTask", "LossName", "ModelTask", "MultiTask", "Task", "as_linear", "check_task", "take_labels"]
