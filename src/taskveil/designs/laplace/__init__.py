"""Designs with Laplace noise: the closed form and its clipped refinement for linear tasks, learned ones for models.

`learned` trains encoder and decoder by gradients. It and the modules that it uses (`gradient`, `replicas`) need torch.
"""
