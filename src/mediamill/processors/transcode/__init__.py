"""Video into adaptive streams: a ladder of qualities as HLS, with pictures for lists and for seeking."""
