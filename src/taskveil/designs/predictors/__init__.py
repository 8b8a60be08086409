"""What a device can know of the truth: encoders of several strengths, each with what it said of volunteers it had not
seen."""
