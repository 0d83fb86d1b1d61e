"""The one thing setup.cfg cannot say: the optional compiled twin, built where a C compiler is present."""
from glob import glob

from setuptools import Extension, setup

setup(ext_modules=[Extension("pyproducer.hotpath._native", [path], optional=True)
                   for path in glob("pyproducer/hotpath/_native.pyx")])
