"""What the server does with reports: `estimates` is what many of them say together, `collector` the service that keeps
them; `report_files` is how a file of them looks."""
