"""The code of the user: how it is declared, loaded and called."""
