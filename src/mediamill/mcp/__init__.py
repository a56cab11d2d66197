"""The door for agents: tools by the Model Context Protocol, over stdin and stdout."""
