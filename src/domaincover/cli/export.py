"""The command `export`: a model of tables as one ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from domaincover.cli.arguments import model_folder
from domaincover.errors import InputError
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import say


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Arguments and options of `export`."""

    model: Path = model_folder()
    out: Path = option("File for the exported model: .onnx.", REQUIRED)


@takes(ExportOptions)
def export(options: ExportOptions) -> None:
    """Export a model of tables to ONNX: encoding, network or trees, and thresholds in one file.

    It gives the sets of `predict` without --domain; a model from `adapt` has the thresholds of its domain.

    Example: domaincover export model --out model.onnx
    """
    out = options.out
    if out.suffix.lower() != ".onnx":
        raise InputError(f"--out {out} must end in .onnx.")

    from domaincover.exporting.onnx_models import export_onnx
    from domaincover.saving.models import load_to_predict

    fitted = load_to_predict(options.model)
    export_onnx(fitted, out)
    kind = "those of one domain" if hasattr(fitted, "adapted_") else "fixed"
    say(f"The ONNX model is {out}: {len(fitted.classes_)} labels, thresholds {kind}.")
