"""What comes out: faults, counters, roofline card, event log, timeline."""
