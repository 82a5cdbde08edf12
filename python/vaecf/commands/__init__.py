"""The commands of `vaecf`: each module defines add_arguments(parser) and run(options) -> exit code."""
