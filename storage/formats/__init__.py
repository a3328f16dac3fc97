"""Samples and traces as others take them: flat rows, their files, and each trainer's own record. Pure: no I/O."""
