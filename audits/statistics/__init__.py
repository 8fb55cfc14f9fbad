"""Statistics of audits: each function is a valid bound, or says in its name or label that it is not.

clopper_pearson   one rate, from one score per independent run
boundaries        what a claim allows: its trade-off curve
joint             two rates against a claim, exactly; ε and μ by inversion
sequential        the same claim, looked at after every pair of trials
one_run           many records against one release (Steinke et al. 2023), for any number of guesses
one_run_curve     the same against a whole curve, every coin guessed (Mahloujifar et al. 2025)
thresholds        fixed beforehand, split, or corrected: never chosen on the data it is tested on
auc               AUC and TPR at a low FPR, ties handled, intervals that resample runs
precision         how many of those called members are, by a threshold from other runs
correction        one level for a report, shared out among its tests
ceilings          what a perfect attack would have shown
power             how often a real one would have
"""

if __name__ != "affidavit.audits.statistics":
    raise ImportError("import affidavit.audits.statistics, not the bare folder")
