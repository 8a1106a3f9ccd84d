"""A proxy for OpenAI's API: requests go on to another endpoint, with what the memory recalls for them."""
