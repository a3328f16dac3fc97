"""The APIs that agents speak, one file each: requests in, answers out. Pure."""
