"""Privacy filters: how runs that are chosen one after another add up to a stated (ε, δ).

    costs.py    what one run costs in each filter's own unit; the numbers that certificates carry
    spend.py    those numbers from a plan, in balls, rounded up
    again.py    the same numbers by other code, for the gate
    budgets.py  what an account of (ε, δ) holds in a filter's unit, rounded down; which filters there are

A filter is one sum that may not pass one number, both fixed in kind when the account opens:

- basic: Σε and Σδ (Rogers, Roth, Ullman, Vadhan 2016, "Privacy odometers and filters", section 3);
- renyi: Σρ(α) at one order α (Feldman, Zrnic 2021, "Individual privacy accounting via a Rényi filter";
  Lécuyer 2021, "Practical privacy filters and odometers with Rényi differential privacy");
- zcdp: Σρ, which is the Rényi sum at every order at once (Bun, Steinke 2016; Whitehouse, Ramdas, Rogers, Wu 2023);
- gdp: Σμ² (Smith, Thakurta 2022, "Fully adaptive composition for Gaussian differential privacy"; Koskela, Tobaben,
  Honkela 2023, "Individual privacy accounting with Gaussian differential privacy").

Adaptivity allowed: each run, its plan and so its cost, and whether there is another, may depend on everything that
was released before. Runs may overlap in time, too: filters for one mechanism after another hold for concurrent
interactive ones in (ε, δ)-DP, f-DP and Rényi DP of a fixed order (Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang
2023, arXiv 2309.05901). What may not depend on releases: the filter, its order, the budget.
"""
