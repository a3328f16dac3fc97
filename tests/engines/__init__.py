"""Real vLLM, SGLang and Dynamo on the CPU, asked directly and through the gateway: `make engines`."""
