"""Mutation: small faults put into copies of the checkout, one at a time, to see the tests fail."""
