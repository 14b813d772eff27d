"""What it may be where the rules do not decide: suspects with their shares, and what is ruled out.

clues are single observations of a view; hypotheses say which of them speak for or against a cause,
and which of the exclusions rules it out; weights are how much, measured by bench/calibration;
ranking adds them up; ruling_out says what it cannot be; probes say what would decide.
"""
