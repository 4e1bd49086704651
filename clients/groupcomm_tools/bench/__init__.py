"""`groupcomm bench`: how many messages pass, how long they take, and what that costs."""
