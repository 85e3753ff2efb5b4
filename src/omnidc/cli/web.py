"""`omnidc web`, `omnidc serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnidc.cli.models import DeviceOption, ModelOption, RuntimeOption, load_model


def register(app: typer.Typer) -> None:
    app.command("web")(web)
    app.command("serve")(serve)


HostOption = Annotated[
    str, typer.Option(help="Address to listen on; the default is reachable from this computer only.")
]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
MegabytesOption = Annotated[float, typer.Option(help="Largest request, in MB.")]
MegapixelsOption = Annotated[float, typer.Option(help="Largest image, in megapixels.")]
MemoryOption = Annotated[
    float, typer.Option(help="Memory for all requests under way, in GB; 0 = half of this computer's.")
]
TimeoutOption = Annotated[
    float, typer.Option(help="Seconds for a request, from its head to the last byte of its answer.")
]
AllowedHostOption = Annotated[
    list[str] | None, typer.Option(help="Host name to answer to, besides localhost; may be repeated.")
]
RootPathOption = Annotated[str, typer.Option(help="Path under which a proxy shows this server, such as /depth.")]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(envvar="OMNIDC_API_KEY", help="Key that every request must carry; the page asks for it once."),
]
QueueOption = Annotated[int, typer.Option(help="Requests that may wait; the next one is answered with 429.")]


def web(
    model: ModelOption = None,
    device: DeviceOption = "auto",
    runtime: RuntimeOption = "auto",
    host: HostOption = "127.0.0.1",
    port: PortOption = 7860,
    api_key: ApiKeyOption = None,
    max_megabytes: MegabytesOption = 128.0,
    max_megapixels: MegapixelsOption = 50.0,
    max_memory: MemoryOption = 0.0,
    queue: QueueOption = 32,
    timeout: TimeoutOption = 120.0,
    allowed_host: AllowedHostOption = None,
    root_path: RootPathOption = "",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open the page: a photograph and a depth file (or a few clicks) in, depth and a point cloud out."""
    from omnidc.web.server import run
    from omnidc.web.settings import Settings

    settings = Settings(
        host=host,
        port=port,
        api_key=api_key,
        max_bytes=int(max_megabytes * 2**20),
        max_pixels=int(max_megapixels * 1e6),
        max_memory=int(max_memory * 1e9),
        queue=queue,
        timeout=timeout,
        allowed_hosts=tuple(allowed_host or ()),
        root_path=root_path,
    )
    run(lambda: load_model(model, device, runtime), settings, open_browser=browser)


def serve(
    model: ModelOption = None,
    device: DeviceOption = "auto",
    runtime: RuntimeOption = "auto",
    host: HostOption = "127.0.0.1",
    port: PortOption = 7861,
    api_key: ApiKeyOption = None,
    max_megabytes: MegabytesOption = 128.0,
    max_megapixels: MegapixelsOption = 50.0,
    max_memory: MemoryOption = 0.0,
    queue: QueueOption = 32,
    batch: Annotated[int, typer.Option(help="Waiting requests of equal size that run together.")] = 4,
    timeout: TimeoutOption = 120.0,
    allowed_host: AllowedHostOption = None,
    root_path: RootPathOption = "",
) -> None:
    """Run the HTTP service: POST /v1/complete; its description is at /openapi.json."""
    from omnidc.web.server import run
    from omnidc.web.settings import Settings

    settings = Settings(
        host=host,
        port=port,
        page=False,
        api_key=api_key,
        max_bytes=int(max_megabytes * 2**20),
        max_pixels=int(max_megapixels * 1e6),
        max_memory=int(max_memory * 1e9),
        queue=queue,
        batch=batch,
        timeout=timeout,
        allowed_hosts=tuple(allowed_host or ()),
        root_path=root_path,
    )
    run(lambda: load_model(model, device, runtime), settings)
