"""What a stranger meets: open ports, sockets, and answers beside clients that take their time."""
