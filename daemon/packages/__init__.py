"""What a distribution adds to the commands: manual pages, completions, a Debian package."""
