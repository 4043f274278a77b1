"""The command `export`: a model of tables as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domaincover.cli.arguments import ModelFolder
from domaincover.errors import InputError
from domaincover.terminal.messages import say


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="File for the exported model: .onnx.")],
) -> None:
    """Export a model of tables to ONNX: encoding, network or trees, and thresholds in one file.

    It gives the sets of `predict` without --domain; a model from `adapt` has the thresholds of its domain.

    Example: domaincover export model --out model.onnx
    """
    if out.suffix.lower() != ".onnx":
        raise InputError(f"--out {out} must end in .onnx.")

    from domaincover.exporting.onnx_models import export_onnx
    from domaincover.saving.models import load_to_predict

    fitted = load_to_predict(model)
    export_onnx(fitted, out)
    kind = "those of one domain" if hasattr(fitted, "adapted_") else "fixed"
    say(f"The ONNX model is {out}: {len(fitted.classes_)} labels, thresholds {kind}.")
