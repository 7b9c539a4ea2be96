"""`ckwatch mcp`: a workspace for assistants, by the Model Context Protocol."""
