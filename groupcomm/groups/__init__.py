"""Who is in which group: turns ordered events into group views and deliveries."""
