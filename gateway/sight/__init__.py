"""What a gateway shows of itself: metrics, log lines and spans. Nothing here decides anything about a call."""
