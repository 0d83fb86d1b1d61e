"""The one thing setup.cfg cannot say: the optional compiled twin, built where a C compiler is present.

PYPRODUCER_IMPL=native asks for it, as at run time: then an extension that does not compile is an error.
"""
import os

from setuptools import Extension, setup

setup(ext_modules=[
    Extension(f"pyproducer.hotpath.{name}", [f"pyproducer/hotpath/{name}.pyx"],
              depends=["pyproducer/hotpath/_native.pxd"],
              # Windows has no _native_socket: its sockets are no files.
              optional=os.environ.get("PYPRODUCER_IMPL") != "native" or os.name == "nt")
    for name in ("_native", "_native_columns", "_native_road", "_native_role", "_native_socket")])
