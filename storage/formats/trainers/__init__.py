"""Each trainer's own record, made from flat samples: its names, its lengths, its conventions. One file a trainer."""
