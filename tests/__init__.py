"""The tests, in the rooms of pulsar_doctor/; support/ is what many of them use."""
