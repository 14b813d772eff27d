"""Scalable topics of Pulsar 5, as a real broker reports them: recorded answers, replayed."""
