"""What the laboratories work out: costs, likelihoods, continuations, the logit lens."""
