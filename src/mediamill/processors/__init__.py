"""Files in, results out: the contract of processors and their registry. No database here."""

import os

# Read when onnxruntime is imported: without it, that package keeps a record of what it runs and sends it to its makers.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
