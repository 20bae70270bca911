"""Groups that expire when they are not used."""
