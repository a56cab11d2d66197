"""Ways out of a child process, each to be tried by the hostile processor (hostile.py).

What counts as refused is an error that says so; any other error means that the kernel listened. Attempts that get
through do no harm: they touch what was put there to be touched, or call with arguments that make no sense.
"""

from __future__ import annotations

from mediamill.testing.escape import Attempt
from mediamill.testing.escape_by_calls import CALL_ATTEMPTS
from mediamill.testing.escape_by_files import FILE_ATTEMPTS
from mediamill.testing.escape_by_numbers import NUMBER_ATTEMPTS

ATTEMPTS: dict[str, Attempt] = {**FILE_ATTEMPTS, **CALL_ATTEMPTS, **NUMBER_ATTEMPTS}
