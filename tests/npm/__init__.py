"""The SDKs that npm has, against a gateway in a process of its own before scripted backends: `make npm`."""
