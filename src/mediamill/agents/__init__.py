"""Agent sessions behind one contract: the pi agent, and any OpenAI-compatible chat."""
