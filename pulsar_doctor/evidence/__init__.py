"""The facts that checks use: numbers of consumers and subscriptions, from every source."""
