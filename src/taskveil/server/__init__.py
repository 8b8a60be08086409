"""What the server does with reports: `collector` is the service that keeps them, `report_files` their file format."""
