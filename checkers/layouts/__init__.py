"""CuTe layouts as tables of offsets, for grading and for drawing. No GPU is needed."""
