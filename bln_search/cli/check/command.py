"""Command `check`: why is this network worse in evaluation mode, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bln_search.api.check.check import check as check_network
from bln_search.api.inputs.loaders import Loader
from bln_search.cli.check import loaders, networks
from bln_search.cli.output import check_output_path_writable, print_note, results, write_file_atomically
from bln_search.core.corruption import parse_corruption
from bln_search.core.errors import DataError
from bln_search.reports.check.page import render_check_html

_IMAGENET_MEAN, _IMAGENET_DEVIATION = "0.485,0.456,0.406", "0.229,0.224,0.225"


def check(
    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help=f"The trained network: {networks.FORMS}.", show_default=False)
    ],
    validation: Annotated[
        str, typer.Option(metavar="DATA", help=f"Data with targets: {loaders.FORMS}.", show_default=False)
    ],
    train: Annotated[str | None, typer.Option(metavar="DATA", help="Training data, in one of the same forms.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="DATA", help="Unlabelled data of the domain where it is used.")
    ] = None,
    condition: Annotated[
        list[str] | None, typer.Option(metavar="NAME=DATA", help="Further data with targets; repeatable.")
    ] = None,
    corruption: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Corruption of the validation images as a further condition, as in contrast-3; repeatable.",
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="State dict of the network: .safetensors or .pt.")
    ] = None,
    at: Annotated[str, typer.Option(metavar="SIZES", help="Further mini-batch sizes, as in 1,8,64.")] = "",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page to this file (.html), or JSON (.json).")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the ranked table, which `submit-results` takes.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Number of classes of a timm or torchvision network.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Mini-batch size of data from files.")] = 64,
    image_size: Annotated[
        int, typer.Option(min=1, metavar="PIXELS", help="Height and width of images from folders.")
    ] = 224,
    mean: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Mean of each channel of images in 0 to 1.")
    ] = _IMAGENET_MEAN,
    deviation: Annotated[str, typer.Option(metavar="NUMBERS", help="Deviation of each channel.")] = _IMAGENET_DEVIATION,
    target_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the targets in a table.")] = "label",
) -> None:
    """Check a trained network: is it worse in evaluation mode than it could be, why, and what to do.

    The network is measured as it is, with statistics estimated again, and with those of the mini-batch, on the same
    examples. FILE.py:NAME runs this file on this machine.
    """
    if report is not None and report.suffix not in (".html", ".json"):
        raise DataError(f"--report: {report} ends in neither .html nor .json")
    for path in filter(None, (report, table)):
        check_output_path_writable(path)
    corruptions = [parse_corruption(text) for text in corruption or ()]
    names = [*(text.partition("=")[0] for text in condition or ()), *map(str, corruptions)]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"the condition {repeated} is given twice: give each condition a name of its own")
    options = loaders.DataOptions(
        batch_size,
        image_size,
        _parse_numbers(mean, "--mean"),
        _parse_numbers(deviation, "--deviation"),
        target_column,
        loaders.find_classes([train, validation]),
    )
    loaded = networks.load_network(network, weights, classes)
    done = check_network(
        loaded,
        None if train is None else loaders.load_data(train, "--train", options, needs_targets=False),
        loaders.load_data(validation, "--validation", options),
        target_loader=None if target is None else loaders.load_data(target, "--target", options, needs_targets=False),
        conditions={
            **dict(_load_condition(text, options) for text in condition or ()),
            **{
                str(each): loaders.load_data(validation, "--corruption", replace(options, corruption=each))
                for each in corruptions
            },
        },
        at=_parse_sizes(at) if at else None,
    )
    results.print(str(done), markup=False, highlight=False)
    if table is not None:
        done.ranked.save(table)
        print_note(f"written: {table}")
    if report is not None:
        text = render_check_html(done.check) if report.suffix == ".html" else done.check.model_dump_json(indent=1)
        write_file_atomically(report, text.encode())
        print_note(f"written: {report}")


def _load_condition(text: str, options: loaders.DataOptions) -> tuple[str, Loader]:
    name, separator, reference = text.partition("=")
    if not separator or not name:
        raise DataError(f"--condition: {text!r} is no name with data, as in night=images/night")
    return name, loaders.load_data(reference, f"--condition {name}", options)


def _parse_sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise DataError(f"--at: {text!r} is no list of whole numbers of at least 1, as in 1,8,64")
    return sizes


def _parse_numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise DataError(f"{option}: {text!r} is no list of numbers, as in 1,8,64") from None
