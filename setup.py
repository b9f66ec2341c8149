"""Builds packages of what is there now; everything else is declared in pyproject.toml."""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildAnew(build_py):
    """Empties setuptools' folder of copies first, which keeps files that the sources no longer have."""

    def run(self) -> None:
        """Copy the sources."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildAnew})
