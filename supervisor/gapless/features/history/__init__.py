"""The past of groups and topics, by the minute: recorded beside the sequencer, and read."""
