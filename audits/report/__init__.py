"""The report: what was claimed, what it means, and what attacks made of it, on one page.

inputs.py          what a report is made from: chapters, one a certificate
folder.py          the files of runs, read back into that
numbers.py         digits, rounded to the safe side
words.py           what the numbers mean, in sentences
plan_words.py      a plan as a sentence
style.py           how every plot looks
figures.py         the plots of claims and attacks, one function each
budget_figures.py  the plots of an account
svg.py             a plot as inline SVG in the page's own colours
drawings.py        plots with the words that go with them
leak_rows.py       tables of what leaked
rates.py           what is possible at a false-alarm rate that the reader chooses
budget.py          the accounts' part of the page
chapter.py         a certificate's part of the page
view.py            all of the above put together for the template
page.py            the page itself
"""

from affidavit.audits.report.folder import read_folder
from affidavit.audits.report.inputs import Chapter, Exhibit, ReportInput, Run, Sample
from affidavit.audits.report.page import render, write

__all__ = ["Chapter", "Exhibit", "ReportInput", "Run", "Sample", "read_folder", "render", "write"]
