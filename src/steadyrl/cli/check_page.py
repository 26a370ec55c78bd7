"""The result of a check as a page for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from steadyrl.checker.finding import Severity
from steadyrl.checker.report import Report
from steadyrl.checker.rules import SUBJECTS, rules_of

_STYLES: dict[str, str] = {"error": "bold red", "warning": "yellow", "note": "cyan", "yes": "green", "no": "bold red"}


def show(report: Report, console: Console) -> None:
    """Print the page."""
    for part in _parts(report):
        console.print(part)


def _parts(report: Report) -> Iterator[RenderableType]:
    yield Text(_heading(report) + "\n", style="bold")
    if report.findings:
        yield _findings(report)
        yield Text()
    yield _practice(report)
    yield Text()
    yield _subjects(report)
    yield Text("\n" + _looked_at(report))
    unfit = [name.upper() for name, reason in report.fits.items() if reason]
    if unfit and report.fits:
        yield Text(f"Algorithms that do not fit: {', '.join(unfit)} (see the notes).")


def _heading(report: Report) -> str:
    counts = ", ".join(_count(report, severity) for severity in ("error", "warning", "note"))
    verdict = "passed" if report.ok else "did not pass"
    return f"{report.env} {verdict}: {counts}"


def _count(report: Report, severity: Severity) -> str:
    number = report.count(severity)
    return f"{number or 'no'} {severity}{'s' if number != 1 else ''}"


def _findings(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report.findings:
        text = Text(finding.message)
        text.append(f"\n{finding.remedy}", style="dim")
        severity = Text(finding.severity, style=_STYLES[finding.severity])
        table.add_row(severity, f"{finding.kind}\n{finding.code}", text)
    return table


def _practice(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("rules of practice", "", ""):
        table.add_column(title)
    for each in report.practice:
        table.add_row(each.rule, Text(each.state, style=_STYLES.get(each.state, "dim")), each.why)
    return table


def _subjects(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("subject")
    for title in ("rules", "errors", "warnings", "notes"):
        table.add_column(title, justify="right")
    looked_at = {*report.experiments, "died", "forks", "checker"}
    for subject, module in SUBJECTS.items():
        rules = rules_of(module)
        codes = {rule.code for rule in rules}
        seen = sum(rule.record in looked_at for rule in rules)
        if not seen:
            table.add_row(subject, Text("-", style="dim"), "", "", "")
            continue
        found = [finding.severity for finding in report.findings if finding.code in codes]
        cells = [_number(found.count(severity), severity) for severity in ("error", "warning", "note")]
        table.add_row(subject, str(seen), *cells)
    return table


def _number(count: int, severity: str) -> Text:
    return Text(str(count), style=_STYLES[severity]) if count else Text("0", style="dim")


def _looked_at(report: Report) -> str:
    numbers = report.numbers
    step = numbers.get("step_us")
    taken = f"; a step takes {step:,.0f} us" if step else ""
    steps, episodes, policies = (numbers.get(name, 0) for name in ("steps", "episodes", "policies"))
    return (
        f"Looked through {steps:,} steps of {episodes:,} episodes by {policies} policies, and repeated them, "
        f"in {report.seconds:.1f} s{taken}."
        if "repeat" in report.experiments
        else f"Looked through {steps:,} steps of {episodes:,} episodes in {report.seconds:.1f} s{taken}."
    )
