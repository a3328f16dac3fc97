"""The `messages` dialect: Anthropic's Messages, translated to chat completions and back."""
