"""The one thing setup.cfg cannot say: the optional compiled twin, built where a C compiler is present."""
from setuptools import Extension, setup

setup(ext_modules=[Extension("pyproducer.hotpath._native", ["pyproducer/hotpath/_native.pyx"], optional=True)])
