"""The command `pagecast`: one file per command group."""
