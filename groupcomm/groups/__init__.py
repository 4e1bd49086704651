"""Groups: ordered events become group views and deliveries."""
