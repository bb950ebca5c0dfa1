"""What is asserted of a server. Wheels and editable installs carry it as `draftgate.suite`."""
