"""Where lasting files lie, by name: in the data folder, or in an S3-compatible bucket that many machines share."""
