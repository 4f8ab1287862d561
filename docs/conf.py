# Configuration of Sphinx for the pages; tools/manual.py calls it.
import pathlib
import re

project = "Penstock"
copyright = "the Penstock project"
version = release = re.search(r"project\(penstock VERSION ([\d.]+)",
                              (pathlib.Path(__file__).parent.parent / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser", "breathe"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
breathe_default_project = "penstock"
breathe_projects = {"penstock": "xml"}  # tools/manual.py says where
breathe_domain_by_file_pattern = {"*/penstock.h": "c"}
highlight_language = "none"
html_theme = "furo"
html_title = f"Penstock {version}"
html_copy_source = False
html_show_sourcelink = False
# Code of 96 columns fits without a scroll bar.
html_theme_options = {"navigation_with_keys": True, "light_css_variables": {"code-font-size": "75%"}}
breathe_show_include = False
toc_object_entries = False
