collect_ignore = ["plugin_file.py"]  # to look for doctests in it would register what it registers
