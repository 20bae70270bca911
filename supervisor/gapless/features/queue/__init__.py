"""Queue groups: any number of workers a partition; each event is acknowledged by itself."""
