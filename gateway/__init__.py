"""The proxy itself: HTTP in, HTTP out, and everything that an agent, a trainer or an administrator can call."""
