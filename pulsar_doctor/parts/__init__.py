"""What can be attached to the core: each folder is one part, named as its subcommand."""
