"""What puts jobs back that nobody moves any more, one chore a file."""
