"""The user's code: how it is declared, loaded and called."""
