"""The command line: one small module a command; nothing heavy is imported before it is needed."""
