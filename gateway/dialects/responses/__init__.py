"""The `responses` dialect: OpenAI's Responses, said to backends as the chat that it means."""
