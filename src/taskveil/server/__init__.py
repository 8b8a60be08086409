"""What the server does with reports: what many of them say together."""
