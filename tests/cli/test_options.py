"""One meaning per option: the same name has the same type, help and default wherever it occurs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from typing import get_type_hints

from typer.models import OptionInfo

from omnidc.cli import RENAMED_OPTIONS, app
from omnidc.pipeline.options import CompleteOptions, WriteOptions

# Commands that complete frames; options of their readers may differ in the default only.
COMPLETING = ("complete", "colmap", "lidar", "rgbd", "radar", "bag")
# Where the command's own folder, or the sensor's clock, is the default; `complete` takes files and folders; of a
# recording without a COLMAP model fewer exports can be made; what `colmap` knows beforehand serves --run-sfm alone.
OWN_DEFAULT = {"--output", "--max-time-diff"}
OWN_KIND = {("complete", "--output"), ("rgbd", "--export"), ("colmap", "--poses"), ("colmap", "--calib")}
# A file or a folder; the folder of one dataset, or the names of several; the width of a splat, or an export's HxW.
OTHER_TYPES = {"--output", "--data", "--size"}


@dataclass(frozen=True)
class Option:
    kind: str
    help: str | None
    default: str


def commands() -> dict[str, dict[str, Option]]:
    """The options of every command by their first name."""
    found: dict[str, dict[str, Option]] = {}
    for info in app.registered_commands:
        assert info.callback is not None
        hints = get_type_hints(info.callback, include_extras=True)
        parameters = inspect.signature(info.callback).parameters
        options = {}
        for name, hint in hints.items():
            about = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, OptionInfo)), None)
            if about is not None:
                given = (about.default, *(about.param_decls or ()))  # within Annotated the first one is the "default"
                long = [str(word) for word in given if str(word).startswith("--")]
                flag = long[0] if long else f"--{name.replace('_', '-')}"
                options[flag] = Option(str(hint.__origin__), about.help, repr(parameters[name].default))
        found[info.name or info.callback.__name__] = options
    return found


def test_options_of_completing_commands_have_one_meaning() -> None:
    meanings: dict[str, set[Option]] = {}
    for name in COMPLETING:
        for flag, option in commands()[name].items():
            if (name, flag) not in OWN_KIND:
                meanings.setdefault(flag, set()).add(replace(option, default="") if flag in OWN_DEFAULT else option)
    several = {flag: found for flag, found in meanings.items() if len(found) > 1}
    assert not several


def test_options_of_all_commands_have_one_type() -> None:
    kinds: dict[str, set[str]] = {}
    for options in commands().values():
        for flag, option in options.items():
            kinds.setdefault(flag, set()).add(option.kind)
    assert {flag for flag, found in kinds.items() if len(found) > 1} <= OTHER_TYPES


def test_every_completing_command_has_every_shared_option() -> None:
    shared = [field for kind in (CompleteOptions, WriteOptions) for field in fields(kind)]
    for name in COMPLETING:
        own = commands()[name]
        for field in shared:
            flag = field.metadata.get("flags", (f"--{field.name.replace('_', '-')}",))[0]
            assert flag in own, f"{name} lacks {flag}"
            assert own[flag].help == field.metadata["help"]


def test_no_two_options_have_the_same_help() -> None:
    for name, options in commands().items():
        helps = [option.help for option in options.values()]
        assert len(helps) == len(set(helps)), name


def test_renamed_options_point_to_options_that_exist() -> None:
    known = {flag for options in commands().values() for flag in options}
    assert {new.partition("=")[0] for new in RENAMED_OPTIONS.values()} <= known
