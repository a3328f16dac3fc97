"""What engines say and how it is read: JSON and bytes in, values out. No sockets, no await, no database."""
