"""Who may do what: users, tokens, sessions, and what they did."""
