"""What a user holds: the cluster in this process or beside it, its nodes, scripted faults, and what can be seen."""
