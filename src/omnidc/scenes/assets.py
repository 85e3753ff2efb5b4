"""The catalog of asset packages: what each is, under which license, which pictures and models it brings.

An asset folder has one sub-folder per source (`setup` says how it is filled). Every source is optional; with none the
worlds use synthesized pictures and procedural shapes only.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from omnidc.scenes.description import Model

PICTURES = {".png", ".jpg", ".jpeg"}


@dataclass(frozen=True)
class AssetSource:
    """One package. `copyleft` sources are read only when asked for; `credit` is what attribution licenses ask."""

    name: str
    package: str
    origin: str  # "Debian", "PyPI", "npm" or "bpy"
    license: str
    brings: str
    copyleft: bool = False
    credit: str = ""


SOURCES: tuple[AssetSource, ...] = (
    AssetSource("sh3d/BlendSwap-CC-0", "sweethome3d-furniture", "Debian", "CC0-1.0", "175 models"),
    AssetSource(
        "sh3d/BlendSwap-CC-BY",
        "sweethome3d-furniture",
        "Debian",
        "CC-BY-3.0",
        "135 models",
        credit="the authors named in the catalog, through Blend Swap",
    ),
    AssetSource(
        "sh3d/KatorLegaz",
        "sweethome3d-furniture",
        "Debian",
        "CC-BY-3.0-US",
        "90 models",
        credit="Andrew Kator & Jennifer Legaz",
    ),
    AssetSource("sh3d/Reallusion", "sweethome3d-furniture", "Debian", "CC-BY-3.0-US", "25 models", credit="Reallusion"),
    AssetSource(
        "sh3d/Scopia",
        "sweethome3d-furniture",
        "Debian",
        "CC-BY-3.0",
        "395 models",
        credit="Emmanuel Puybaret / eTeks and Scopia Visual Interfaces Systems",
    ),
    AssetSource("miniworld", "miniworld", "PyPI", "Apache-2.0", "45 textures"),
    AssetSource("robosuite", "robosuite", "PyPI", "MIT", "30 textures"),
    AssetSource("eztree", "@dgreenheck/ez-tree", "npm", "MIT", "bark, leaves, soil and grass"),
    AssetSource("pmndrs", "@pmndrs/assets", "npm", "CC0-1.0", "panoramas from Poly Haven"),
    AssetSource("pybullet", "pybullet", "PyPI", "Zlib", "1,000 random solid shapes"),
    AssetSource("ufoai", "ufoai-textures", "Debian", "GPL-2.0-or-later", "2,700 textures", copyleft=True),
    AssetSource("sh3dtex", "sweethome3d", "Debian", "GPL-2.0-or-later", "26 textures", copyleft=True),
    AssetSource(
        "photos",
        "gnome-backgrounds mate-backgrounds plasma-workspace-wallpapers lomiri-wallpapers-16.04 "
        "lomiri-wallpapers-20.04 ukui-wallpapers",
        "Debian",
        "CC-BY-SA and others",
        "64 photographs",
        copyleft=True,
    ),
)

# role: patterns of picture files within the asset folder
ROLES: dict[str, tuple[str, ...]] = {
    "wall": (
        "miniworld/drywall*",
        "miniworld/stucco*",
        "miniworld/brick*",
        "miniworld/cinder*",
        "robosuite/*plaster*",
        "robosuite/*brick*",
        "ufoai/textures/tex_buildings/wallpaper*",
        "ufoai/textures/tex_buildings/concrete*",
        "sh3dtex/*all*",
        "sh3dtex/roughcast*",
    ),
    "ceiling": ("miniworld/ceiling*", "miniworld/drywall*", "robosuite/*plaster*"),
    "floor": (
        "miniworld/floor*",
        "miniworld/wood*",
        "miniworld/marble*",
        "miniworld/concrete*",
        "robosuite/*wood*",
        "robosuite/*tile*",
        "robosuite/gray-felt*",
        "ufoai/textures/tex_buildings/floor*",
        "ufoai/textures/tex_buildings/carpet*",
        "ufoai/textures/tex_buildings/tile*",
        "sh3dtex/*loor*",
        "sh3dtex/*ile*",
    ),
    "facade": (
        "miniworld/brick*",
        "miniworld/cinder*",
        "miniworld/concrete*",
        "miniworld/stucco*",
        "robosuite/*brick*",
        "robosuite/*plaster*",
        "ufoai/textures/tex_buildings/wall*",
        "ufoai/textures/tex_buildings/concrete*",
        "sh3dtex/*rick*",
        "sh3dtex/stone*",
    ),
    "roof": ("ufoai/textures/tex_buildings/roof*", "sh3dtex/redTiles*"),
    "road": ("miniworld/asphalt*", "miniworld/concrete_[123]*", "ufoai/textures/tex_streets/base*"),
    "pavement": (
        "miniworld/concrete*",
        "robosuite/light-gray-floor*",
        "ufoai/textures/tex_streets/pavement*",
        "sh3dtex/pav*",
        "sh3dtex/pebbles*",
    ),
    "grass": ("miniworld/grass*", "eztree/ground/grass*", "ufoai/textures/tex_nature/grass0*", "sh3dtex/grass*"),
    "soil": ("eztree/ground/dirt*", "robosuite/dirt*", "robosuite/clay*", "ufoai/textures/tex_nature/dirt*"),
    "rock": ("miniworld/rock*", "miniworld/concrete_4*", "ufoai/textures/tex_nature/*rock*"),
    "bark": ("eztree/bark/*_color_*",),
    "wood": ("robosuite/*wood*", "miniworld/wood*", "ufoai/textures/tex_material/wood*"),
    "metal": ("robosuite/*steel*", "robosuite/metal*", "robosuite/brass*", "miniworld/metal*", "miniworld/airduct*"),
    "fabric": ("robosuite/gray-felt*",),
    "print": ("robosuite/cereal*", "robosuite/soda*", "robosuite/can*"),
    "photo": ("photos/*", "sh3d/*/*/*/*.jpg", "robosuite/*", "miniworld/*"),
}

LEAVES = "eztree/leaves/*.png"

# kind: (categories, pattern the whole lower-case name must match); sizes come from the catalog
KINDS: dict[str, tuple[str, str]] = {
    "chair": ("Living room", r"(oak |osaka |plastic |folding )?chair( with cushion)?"),
    "office chair": ("Office", r"armchair|chair|class seat"),
    "stool": ("Kitchen|Living room", r"stool|bar stool|bar chair"),
    "armchair": ("Living room", r"(winchester |modern )?armchair|puff"),
    "sofa": ("Living room", r".*(sofa|couch).*"),
    "table": ("Living room|Office", r"(oak |round |black |wooden |glass |folding )?table|table with tablecloth"),
    "coffee table": ("Living room", r"coffee table"),
    "desk": ("Office", r".*desk.*|technical table|wooden .*table"),
    "bed": ("Bedroom", r"(iron |child |captain's |day )?bed|futon"),
    "bedside": ("Bedroom", r"bedside table"),
    "wardrobe": ("Bedroom", r"wardrobe|cupboard|chest|dressing table"),
    "bookcase": ("Living room|Office", r".*bookcase|.*shelves|filing cabinet"),
    "tv stand": ("Living room", r"tv stand|television cabinet|dresser with drawers"),
    "tv": ("Living room", r"tv( 16:9)?"),
    "piano": ("Living room", r".*piano|fireplace|aquarium"),
    "plant": ("Living room", r".*plant.*|ficus|yucca|cactus|orchids|tulips|white lily|flowers|spathiphyllum|bamboo"),
    "floor lamp": ("Lights", r"lamp|pedestal vase lamp"),
    "table lamp": ("Lights", r"desk lamp|little lamp|candle"),
    "wall radiator": ("Miscellaneous|Bathroom", r"radiator"),
    "base cabinet": ("Kitchen", r"lower cabinet|drawers cabinet|sink cabinet|stove|oven|small lower cabinet|cooker"),
    "upper cabinet": ("Kitchen", r"upper cabinet|small upper cabinet|upper shelves cabinet|glass door cabinet"),
    "appliance": ("Kitchen", r"(large )?fridge|refrigerator|washing machine|double oven|high cabinet|chest freezer"),
    "kitchen small": (
        "Kitchen",
        r"coffee (cup|brewer|maker|press|machine|mug)|mixer|knife stand|milk|beer (glass|bottle)|bread( box)?|"
        r"chopping board|blender|large pan|microwave|kitchen (tools|scale)|utensils pot|espresso kettle|bowl.*|"
        r"oil servers|wine bottle|old jar|pottery|tray|apples|cup|teapot|toaster|paper towel holder|spice tower|"
        r"plate.*|birthday cake|sugar|creamer|salt shaker|sandwich maker|hamburger|roasted chicken",
    ),
    "office small": (
        "Office|Miscellaneous|Living room",
        r"scissors|stapler|laptop|apple i.*|letter tray|penbox|phone|inkjet printer and scanner|calendar|keyboard|"
        r"headphones|mobile phone|book|tablet|camera|reflex camera|radio|newspaper|glasses|wireless phone|table fan|"
        r"mp3 .*|mini stereo|tape measure|dvd player|playstation|joystick",
    ),
    "toy": (
        "Bedroom|Miscellaneous",
        r"teddy bear|biplane|puzzle|wood toy|car model|rubik's cube|chessboard|toy train|xylophone|doll|basketball|"
        r"soccer ball|gift|handbag|briefcase|hat|cap|helmet|sneakers|folded clothes|backpack|vase|suitcase|sunglasses",
    ),
    "bathroom": ("Bathroom", r"toilets unit|washbasin|vanity|bath|shower stall|bidet|double vanity|island bath"),
    "bathroom small": ("Bathroom", r"comb|cosmetics pot|flacon|lip stick|bottle|brush|sponge|soap|medicine .*|towel"),
    "floor thing": (
        "Miscellaneous|Kitchen|Office|Bedroom|Bathroom",
        r"box|crate|barrel|dustbin|bullet trash can|recycling bin|cardboard box|open cardboard box|backpack|suitcase|"
        r"basketball|slippers|sneakers|broom|step ladder|small step ladder|speaker|clothes (basket|horse)|safe|"
        r"water cooler|umbrella|wood logs|electric guitar",
    ),
    "car": (
        "Vehicles",
        r"ford focus|concept sedan.*|vw new beetle|seat leon|peugeot 308 cc|renault scenic|suv|chevrolet|van|smart car",
    ),
    "large vehicle": ("Vehicles", r"truck|(city )?bus|fork lift"),
    "two-wheeler": ("Vehicles|Exterior", r"bike|bicycle|scooter|yamaha.*|motorbike"),
    "person": ("Characters", r"female|male|boy|girl|holding (fe)?male"),
    "animal": ("Characters", r"bulldog|siamese cat|horse|dog|cat"),
    "street thing": (
        "Exterior|Miscellaneous",
        r"(concrete |painted )?bench|park trashcan|residential trashcan|recycling bin|fire hydrant|mailbox|"
        r"letters box|flower box|plant box|cone|pedestrian railing|cafe (chair|table)|wood bank|fence",
    ),
    "street lamp": ("Lights", r"classic lamppost|park light|street (lamp|light)"),
    "garden thing": (
        "Exterior",
        r"deck chair|wheelbarrow|stone lantern|rock|rowboat|garden hut|dog house|camping tent",
    ),
}

MAX_MODEL_BYTES = 4_000_000  # larger ones take longer to load than a frame takes to render


@dataclass(frozen=True)
class Library:
    """What an asset folder holds. Without a folder it is empty."""

    root: Path | None = None
    copyleft: bool = False
    sources: tuple[AssetSource, ...] = ()
    pictures: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    models: dict[str, tuple[Model, ...]] = field(default_factory=dict)
    leaves: tuple[Path, ...] = ()
    panoramas: tuple[Path, ...] = ()
    solids: tuple[Path, ...] = ()

    def licenses(self) -> list[dict[str, object]]:
        """List, for the manifest, every source that may show up in a frame."""
        return [asdict(source) for source in self.sources]


def present(source: AssetSource, root: Path) -> bool:
    """Return whether a source's folder holds anything."""
    folder = root / source.name
    return folder.is_dir() and any(folder.iterdir())


def _pictures(root: Path, patterns: tuple[str, ...], names: set[str]) -> tuple[Path, ...]:
    found = {
        path
        for pattern in patterns
        if pattern.split("/")[0] in names
        for path in root.glob(pattern)
        # normal, gloss and specular maps are no pictures; tiny files are icons or masks
        if path.suffix.lower() in PICTURES
        and not re.search(r"_(nm|gm|sm|normal|ao|roughness)[._]", path.name)
        and path.stat().st_size > 8000
    }
    return tuple(sorted(path for path in found if _usable(path.relative_to(root).as_posix())))


def _usable(name: str) -> bool:
    # a doom door, lava and slime belong to no photograph
    return not re.search(r"lava|slime|door_doom|logo|_way_|water_|glass", name)


def parse_catalog(text: str) -> dict[int, dict[str, str]]:
    """Parse the entries of a Sweet Home 3D catalog: `key#number=value` lines."""
    entries: dict[int, dict[str, str]] = {}
    for line in text.splitlines():
        match = re.match(r"(\w+)#(\d+)=(.*)", line.strip())
        if match:
            entries.setdefault(int(match[2]), {})[match[1]] = match[3].strip()
    return entries


def _furniture(root: Path, library: str) -> list[Model]:
    catalog = root / library / "PluginFurnitureCatalog.properties"
    if not catalog.is_file():
        return []
    models = []
    for entry in parse_catalog(catalog.read_text(encoding="latin-1")).values():
        path = root / library / entry.get("model", "").lstrip("/")
        if path.suffix != ".obj" or not path.is_file() or path.stat().st_size > MAX_MODEL_BYTES:
            continue
        width, depth, height = (float(entry.get(key, 0)) / 100 for key in ("width", "depth", "height"))
        if min(width, depth, height) <= 0:
            continue
        models.append(
            Model(
                path,
                entry.get("name", "").lower(),
                entry.get("category", ""),
                library,
                width,
                depth,
                height,
                top=float(entry.get("dropOnTopElevation", entry.get("height", 0))) / 100,
                elevation=float(entry.get("elevation", 0)) / 100,
                rotation=tuple(float(value) for value in entry.get("modelRotation", "").split()),
            )
        )
    return sorted(models, key=lambda model: str(model.path))


def by_kind(models: list[Model]) -> dict[str, tuple[Model, ...]]:
    """Sort models into `KINDS`."""
    return {
        kind: tuple(
            model for model in models if model.category in categories.split("|") and re.fullmatch(pattern, model.name)
        )
        for kind, (categories, pattern) in KINDS.items()
    }


def open_library(root: Path | None, copyleft: bool = False, skies: Path | None = None) -> Library:
    """Read an asset folder; `skies` is bpy's own folder of panoramas (CC0)."""
    panoramas = tuple(sorted(skies.glob("*.exr"))) if skies else ()
    own = (AssetSource("bpy", "bpy", "bpy", "CC0-1.0", "8 panoramas"),) if panoramas else ()
    if root is None:
        return Library(sources=own, panoramas=panoramas)
    sources = tuple(source for source in SOURCES if present(source, root) and (copyleft or not source.copyleft))
    names = {source.name.split("/")[0] for source in sources}
    if not names:
        return Library(root, copyleft, own, panoramas=panoramas)
    models = [model for source in sources if source.name.startswith("sh3d/") for model in _furniture(root, source.name)]
    return Library(
        root,
        copyleft,
        own + sources,
        {role: _pictures(root, patterns, names) for role, patterns in ROLES.items()},
        by_kind(models),
        tuple(sorted(root.glob(LEAVES))) if "eztree" in names else (),
        panoramas + (tuple(sorted(root.glob("pmndrs/*.exr"))) if "pmndrs" in names else ()),
        tuple(sorted(root.glob("pybullet/*.obj"))) if "pybullet" in names else (),
    )
