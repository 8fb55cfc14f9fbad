"""The report: what was claimed, what it means, and what attacks made of it, on one page.

inputs.py      what a report is made from
numbers.py     digits, rounded to the safe side
words.py       what the numbers mean, in sentences
plan_words.py  a plan as a sentence
figures.py     the plots, one function each
svg.py         a plot as inline SVG in the page's own colours
view.py        all of the above put together for the template
page.py        the page itself
folder.py      the files of a run, read back
"""

from affidavit.audits.report.folder import read_folder
from affidavit.audits.report.inputs import ReportInput, Sample
from affidavit.audits.report.page import render, write

__all__ = ["ReportInput", "Sample", "read_folder", "render", "write"]
