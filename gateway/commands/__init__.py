"""What the command line's commands do, a file each; `gateway.cli` imports one only when it is called."""
