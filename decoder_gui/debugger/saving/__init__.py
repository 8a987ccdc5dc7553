"""Sessions and captures in files, and runs made from them again."""
