"""The recomputing verifier: ε again, by other formulas and other code.

Nothing here imports the issuing path (``bound``, ``methods``, ``pld``, ``certified``): only the plan
parser, the errors and the border checks are shared, so a fault in one path is not repeated in the
other. What has no second formula is refused (``NotSupported``), never confirmed.

    leaf or node                       how it is recomputed
    gaussian                           closed form, mpmath, 60 digits
    pure, approximate                  binomial sums of positive terms
    laplace                            losses by intervals, split above and merged below
    zcdp                               conversion in mpmath; below, the Gaussian of equal ρ
    exponential, once                  closed form, mpmath, 60 digits
    exponential                        upper: envelope of secants of a call price; lower: a strategy
                                       found by search and played forward
    subsample of Gaussians             contour integral of the transform of the loss
    subsample of pure, approximate     multinomial sums of positive terms
    mixtures of these                  product of transforms, or conditioning on the atoms
    parallel                           every case of the changed record, worst one
"""

from __future__ import annotations

from affidavit.accountant.recompute.verify import ClaimCheck, Recomputed, check_claim, recompute

__all__ = ["ClaimCheck", "Recomputed", "check_claim", "recompute"]
