"""What setup.cfg cannot say: the optional compiled twin, built where a C compiler is present, and the packages.

Found are those of pyproducer; pyspark_pyproducer and pytest_pyproducer lie in folders of theirs, as setup.cfg says.

PYPRODUCER_IMPL asks for a twin, as at run time: with native an extension that does not compile is an error, with python
none is built, and the wheel is one for all platforms.
"""
import os
import sys

from setuptools import Extension, find_packages, setup

WANTED = os.environ.get("PYPRODUCER_IMPL")

PACKAGES = [*find_packages(include=["pyproducer", "pyproducer.*"]), "pyspark_pyproducer", "pytest_pyproducer"]

setup(packages=PACKAGES, ext_modules=[] if WANTED == "python" else [
    Extension(f"pyproducer.hotpath.{name}", [f"pyproducer/hotpath/{source}"],
              depends=[f"pyproducer/hotpath/{pxd}.pxd" for pxd in ("_native", "_native_ledger", "_native_role")],
              # Debug symbols are three quarters of what a wheel would weigh.
              extra_compile_args=["-g0"] if os.name == "posix" else [],
              extra_link_args=["-Wl,-s"] if sys.platform == "linux" else [],
              # Windows has no _native_socket: its sockets are no files.
              optional=WANTED != "native" or os.name == "nt")
    for name, source in (
        ("_native", "_native.pyx"), ("_native_columns", "_native_columns.pyx"),
        # One text: the Python one, with the types of the .pxd beside it.
        ("_native_ledger", "_python_ledger.py"), ("_native_role", "_python_role.py"),
        ("_native_road", "_native_road.pyx"),
        ("_native_socket", "_native_socket.pyx"))])
