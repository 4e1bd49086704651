"""Which transitions of the state machines has a campaign reached?"""
