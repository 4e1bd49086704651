"""What kinds of messages come: how often, how large, how late, and when that is alarming."""
