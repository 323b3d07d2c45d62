"""What would make a chapter's checker too long to read: its known mistakes, diagnoses, inputs."""
