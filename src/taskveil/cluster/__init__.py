"""Work on more than one machine: joining a Ray cluster, and handing it tasks."""
