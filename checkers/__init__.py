"""Everything of the course that is not a lesson or a kernel: grading, lessons, the command line."""
