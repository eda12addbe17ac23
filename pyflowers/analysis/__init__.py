"""What follows from a fit, and how far it can be believed.

Predictive checks, predictions and contrasts; comparison of models by PSIS-LOO and of methods on one
posterior; the prior and a posterior's sensitivity to it; simulation-based calibration.
"""
