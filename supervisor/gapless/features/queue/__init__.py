"""Queue groups: any number of workers a partition, each event acknowledged by itself."""
