"""A Kerberos KDC (MIT) on loopback, with a realm of its own, started and stopped by the tests.

    with Kdc() as kdc:
        keytab = kdc.keytab("kafka/127.0.0.1")      the principal is made, too
        kdc.environment                             KRB5_CONFIG, for whoever is to find it

Source:  ours; krb5.conf(5), kdc.conf(5) of MIT Kerberos 1.20. Debian has it in the packages krb5-kdc, krb5-admin-server
         and krb5-user.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.support.kafka_jars import MissingTool
from tests.support.patience import GIVE_UP_S
from tests.support.ports import ReservedPorts

REALM = "PYPRODUCER.TEST"
_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str) -> str:
    """Return where a program of Kerberos is.

    Raises:
        MissingTool: It is not installed.
    """
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise MissingTool(f"{name} is not installed (Debian: apt-get install krb5-kdc krb5-admin-server krb5-user)")
    return path


class Kdc:
    """A context manager.

    Args:
        ticket_life_s: How long tickets live.

    Attributes:
        config: krb5.conf.
        environment: That of this process, with the way to the KDC.

    Raises:
        MissingTool: It is not installed.
    """

    def __init__(self, ticket_life_s: int = 3600) -> None:
        self._programs = {name: program(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")}
        self.folder = Path(tempfile.mkdtemp(prefix="kdc-"))
        self._reserved = ReservedPorts(1)
        self.port = self._reserved.numbers[0]
        self._process: subprocess.Popen[bytes] | None = None
        self.config = self.folder / "krb5.conf"
        self.config.write_text(f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 ticket_lifetime = {ticket_life_s}s
 renew_lifetime = {10 * ticket_life_s}s
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{self.port}
 }}
[domain_realm]
 127.0.0.1 = {REALM}
 localhost = {REALM}
""")
        # The database's module lies below the folder where the programs lie, wherever they were installed.
        modules = next((Path(self._programs["krb5kdc"]).parents[1] / "lib").glob("*/krb5/plugins/kdb"), None)
        (self.folder / "kdc.conf").write_text(f"""[kdcdefaults]
 kdc_listen = 127.0.0.1:{self.port}
 kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/acl
  max_life = {ticket_life_s}s
  max_renewable_life = {10 * ticket_life_s}s
 }}
[dbmodules]
 {f"db_module_dir = {modules}" if modules else ""}
""")
        self.environment = {**os.environ, "KRB5_CONFIG": str(self.config),
                            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
                            "KRB5CCNAME": f"FILE:{self.folder}/no-cache"}

    def __enter__(self) -> Kdc:
        try:
            self._run("kdb5_util", "create", "-s", "-P", "master")
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen([self._programs["krb5kdc"], "-n", "-r", REALM], env=self.environment,
                                             stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"krb5kdc does not listen: {(self.folder / 'output').read_text()}")

    def stop(self) -> None:
        """Stop it: nobody gets a ticket any more."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(GIVE_UP_S)
            self._process = None

    def keytab(self, name: str) -> Path:
        """Make a principal with a random key, and return a file with it."""
        path = self.folder / f"{name.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-q", f"addprinc -randkey {name}")
        self._run("kadmin.local", "-q", f"ktadd -k {path} {name}")
        return path

    def fill_cache(self, name: str, cache: str) -> None:
        """Put a ticket of a principal into a cache, as kinit does for a user."""
        keytab = self.keytab(name)
        self._run("kinit", "-k", "-t", str(keytab), "-c", cache, name)

    def _run(self, name: str, *arguments: str) -> None:
        ended = subprocess.run([self._programs[name], *arguments], env=self.environment, capture_output=True, text=True,
                               check=False, timeout=GIVE_UP_S, stdin=subprocess.DEVNULL)
        assert ended.returncode == 0, f"{name} {arguments}: {ended.stdout} {ended.stderr}"
