"""Groups that expire when nobody works for them."""
