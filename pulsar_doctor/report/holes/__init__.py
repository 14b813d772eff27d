"""The output of `holes`: drawings, counts and JSON."""
