"""Models on the Hugging Face hub: `hf://owner/name[@revision]` holds config.json, model.safetensors, model.onnx, card.

Files are kept in the hub's cache on the disk, so that a model that was loaded once loads without a network.
"""

from __future__ import annotations

import json
import re
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

from omnidc.errors import CheckpointError, ConfigError, FileError, MissingExtraError
from omnidc.io.files import write_json

WEIGHTS, ONNX, CONFIG, CARD = "model.safetensors", "model.onnx", "config.json", "README.md"
TAGS = ("depth-completion", "depth-estimation", "sparse-depth", "omnidc")


@dataclass(frozen=True)
class HubAddress:
    """A repository of the hub."""

    repository: str  # owner/name
    revision: str | None = None  # branch, tag or commit; None = the default branch

    @classmethod
    def parse(cls, text: str) -> HubAddress:
        match = re.fullmatch(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", text)
        if match is None:
            raise ConfigError(
                f"A model of the hub is written hf://OWNER/NAME or hf://OWNER/NAME@REVISION, not {text!r}."
            )
        return cls(match[1], match[2])


def download(text: str, runtime: str = "auto", endpoint: str | None = None) -> Path:
    """Return the local file of a hub model: its weights, or its ONNX file for the runtime "onnx" or without torch."""
    from importlib.util import find_spec

    hub = _hub()
    from huggingface_hub import errors

    address = HubAddress.parse(text)
    prefer_onnx = runtime == "onnx" or (runtime == "auto" and find_spec("torch") is None)
    names = [ONNX] if runtime == "onnx" else [WEIGHTS] if runtime == "torch" else [WEIGHTS, ONNX]
    for name in reversed(names) if prefer_onnx else names:
        try:
            return Path(hub.hf_hub_download(address.repository, name, revision=address.revision, endpoint=endpoint))
        except errors.RepositoryNotFoundError as error:
            raise FileError(f"The hub has no model {address.repository}, or it is private: check the name.") from error
        except errors.RevisionNotFoundError as error:
            raise FileError(f"{address.repository} has no revision {address.revision}: check the name.") from error
        except errors.LocalEntryNotFoundError as error:
            raise FileError(
                f"The hub cannot be reached, and {text} is not in the local cache: connect, or give a file."
            ) from error
        except errors.EntryNotFoundError:
            continue
        except (errors.HfHubHTTPError, OSError) as error:
            raise FileError(f"{text} cannot be downloaded ({' '.join(str(error).split())}): try again.") from error
    raise CheckpointError(f"{text} has no {' or '.join(names)}: it is no model of omnidc.")


def push(
    checkpoint: Path,
    text: str,  # hf://owner/name
    *,
    onnx: Path | None = None,  # exported model that goes along
    card: Path | None = None,  # text of the model card; None = a short one
    license: str = "apache-2.0",  # identifier of the hub
    private: bool = False,
    message: str = "Upload an omnidc model",
    endpoint: str | None = None,
) -> str:
    """Upload a checkpoint with its configuration and card in one commit; return the address of the commit."""
    hub = _hub()
    from huggingface_hub import errors

    address = HubAddress.parse(text)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage(folder, checkpoint, address.repository, onnx=onnx, card=card, license=license)
        api = hub.HfApi(endpoint=endpoint)
        try:
            api.create_repo(address.repository, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=address.repository, folder_path=folder, commit_message=message, revision=address.revision
            )
        except (errors.HfHubHTTPError, errors.LocalTokenNotFoundError, OSError) as error:
            reason = " ".join(str(error).split())
            raise FileError(f"The hub refused {text} ({reason}): log in with  hf auth login  and try again.") from error
    return str(commit.commit_url)


def stage(
    folder: Path,
    checkpoint: Path,
    repository: str,
    *,
    onnx: Path | None = None,
    card: Path | None = None,
    license: str = "apache-2.0",
) -> None:
    """Lay out the files of a hub repository."""
    config = read_config(checkpoint)
    copyfile(checkpoint, folder / WEIGHTS)
    if onnx is not None:
        if not onnx.is_file():
            raise FileError(f"There is no ONNX model at {onnx}; make one with  omnidc export.")
        copyfile(onnx, folder / ONNX)
    write_json(folder / CONFIG, {"library_name": "omnidc", **config})
    body = short_card(repository) if card is None else card.read_text(encoding="utf-8")
    (folder / CARD).write_text(front_matter(license) + body, encoding="utf-8")


def read_config(checkpoint: Path) -> dict[str, Any]:
    """Return the network's configuration from the header of our safetensors file."""
    try:
        with checkpoint.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > checkpoint.stat().st_size:
                raise ValueError("header longer than the file")
            metadata = json.loads(file.read(length))["__metadata__"]
        config = json.loads(metadata["config"])
    except FileNotFoundError as error:
        raise FileError(f"There is no checkpoint {checkpoint}; check the path.") from error
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise CheckpointError(
            f"{checkpoint} is no checkpoint of omnidc: turn other files into one with  omnidc convert."
        ) from error
    return dict(config)


def front_matter(license: str) -> str:
    """Return the YAML head of a model card."""
    tags = "".join(f"- {tag}\n" for tag in TAGS)
    return f"---\nlicense: {license}\nlibrary_name: omnidc\npipeline_tag: depth-estimation\ntags:\n{tags}---\n\n"


def short_card(repository: str) -> str:
    """Return a card for models that bring none."""
    return (
        f"# {repository}\n\n"
        "Depth completion: a photograph and sparse depth measurements in, dense depth with an uncertainty out.\n\n"
        "```python\n"
        "import omnidc\n\n"
        f'completer = omnidc.load("hf://{repository}")\n'
        'result = completer.complete("photo.jpg", "sparse.npz")\n'
        "```\n"
    )


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub", "Loading models of the hub") from error
    return huggingface_hub
