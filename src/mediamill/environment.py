"""What programs that mediamill starts get of its environment: what is on a list, so that no secret slips in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Where programs, libraries and certificates are, and how people want texts: nothing that may be secret.
PLAIN = frozenset(
    (
        *(
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "VIRTUAL_ENV",
            "TMPDIR",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
        ),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    )
)
PLAIN_PREFIXES = ("LC_", "PYTHON", "XDG_", "CUDA_", "NVIDIA_", "LIBVA_", "OMP_")
# The way out. A proxy's address may hold a password, so these go only to whoever talks to other machines.
PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
OF_PACKAGE_MANAGERS = ("PIP_", "UV_", "NPM_CONFIG_", "NODE_")


def is_plain(name: str) -> bool:
    """Whether any program may have this variable."""
    return name in PLAIN or name.startswith(PLAIN_PREFIXES)


def plain_environment() -> dict[str, str]:
    """For a program that stays on this machine."""
    return {name: value for name, value in os.environ.items() if is_plain(name)}


def network_environment() -> dict[str, str]:
    """For a program that talks to other machines."""
    return {name: value for name, value in os.environ.items() if is_plain(name) or name.upper() in PROXIES}


def package_environment() -> dict[str, str]:
    """For npm and pip, with their own settings."""
    own = {name: value for name, value in os.environ.items() if name.upper().startswith(OF_PACKAGE_MANAGERS)}
    return network_environment() | own


@contextmanager
def secret_file(content: bytes) -> Iterator[int]:
    """A file without a name, for `pass_fds`: others see neither it nor what is in it, unlike an environment."""
    descriptor = os.memfd_create("mediamill", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
