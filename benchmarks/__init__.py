"""What a call costs: CPU per call of this gateway beside others, on the same answers in the same run."""
