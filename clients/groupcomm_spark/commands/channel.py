"""`groupcomm spark channel`: fit a model of the channel to logs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.host.parser import keep_old_names
from groupcomm_spark.commands.options import (
    add_log_options,
    add_sent_at_option,
    add_spark_options,
    progress_printer,
    session_of,
)
from groupcomm_spark.commands.report import sent_at

if TYPE_CHECKING:
    from groupcomm_log.channel.model import Channel, ChannelModel

NAME: Final = "channel"
HELP: Final = "fit delay, loss, order and correlation of each level to logs, as a model to sample"
EXAMPLE: Final = "groupcomm spark channel log-a log-b --sent-at 0 --output model.json"

_HIGH_SCORE: Final = 2.326
"""The normal score of 99 %."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_log_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("model.json"),
        metavar="FILE",
        help="the model, as JSON (model.json)",
    )
    keep_old_names(parser, out="--output")
    add_sent_at_option(parser)
    parser.add_argument(
        "--correct-clocks",
        action="store_true",
        help="subtract the offsets of the hosts' clocks from delays: half of the difference"
        " of the least delays in both directions",
    )
    parser.add_argument(
        "--all-recorded",
        action="store_true",
        help="senders send to the recorded groups only: a number that no log has is a loss"
        " (default: a loss is a message that another log has)",
    )
    add_spark_options(parser)


def run(options: argparse.Namespace) -> int:
    """Write the model and print its summary; return 0."""
    # ruff: noqa: PLC0415 - extras
    from groupcomm_spark.channel.job import COLUMNS, make_model
    from groupcomm_spark.logs import read

    logs = read(session_of(options), *options.folders, columns=COLUMNS)
    model = make_model(
        logs,
        sent_us=None if options.sent_at is None else sent_at(options.sent_at),
        correct_clocks=options.correct_clocks,
        all_recorded=options.all_recorded,
        tell=progress_printer(options),
    )
    model.save(options.output)
    print(as_text(model), flush=True)
    progress_printer(options)(f"the model is in {options.output}")
    return 0


def as_text(model: "ChannelModel") -> str:
    """Return tables of a model, in the form that documents have."""
    lines = [
        "| level | daemon | deliveries | delays | distance | p50 / p99 ms | memory ms | lost"
        " | mean run | overtaken |",
        "|---" * 10 + "|",
        *(_row(channel) for channel in model.channels),
    ]
    if model.sharing:
        lines += ["", "| groups | level | daemon | pairs | delays | losses |", "|---" * 6 + "|"]
        lines += [
            f"| {' and '.join(each.groups)} | {each.level} | {each.place} | {each.pairs}"
            f" | {each.delays:.2f} | {each.losses:.2f} |"
            for each in model.sharing
        ]
    for clock in model.clocks:
        one, other = clock.hosts
        lines.append(
            f"\nclock of {other} ahead of {one} by {clock.ahead_s * 1000:.3f} ms, if the least"
            f" delays are equal: {'subtracted' if clock.corrected else 'not subtracted'}"
        )
    return "\n".join(lines)


def _row(channel: "Channel") -> str:
    delays = channel.delays
    chosen = "" if delays is None else delays.family
    apart = min((fit.distance for fit in channel.fits), default=0.0)
    ends = (
        ""
        if delays is None
        else " / ".join(f"{delays.at(score) * 1000:.3g}" for score in (0.0, _HIGH_SCORE))
    )
    return (
        f"| {channel.level} | {channel.place} | {channel.messages} | {chosen} | {apart:.3f}"
        f" | {ends} | {channel.memory_s * 1000:.0f} | {channel.losses.loss:.2%}"
        f" | {channel.losses.mean_run:.2f} | {channel.overtaken:.2%} |"
    )
