"""Stands in for the build backend of NumPy's source package while pip downloads it.

To fetch a source package, pip asks its build backend for the name and the version, and NumPy's backend answers only
after it has configured the whole build, which takes minutes. Only a folder of headers is needed here, so this backend
answers from the package's PKG-INFO.
"""

import os
import re


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        version = re.search(r"^Version: (\S+)$", file.read(), re.MULTILINE).group(1)
    folder = f"numpy-{version}.dist-info"
    os.mkdir(os.path.join(directory, folder))
    with open(os.path.join(directory, folder, "METADATA"), "w", encoding="utf-8") as file:
        file.write(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
    return folder


def build_wheel(directory, config_settings=None, metadata_directory=None):
    raise SystemExit("this is not NumPy's build backend")
