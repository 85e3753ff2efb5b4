"""Our own world to learn from: a procedural RGB-D generator on Blender as a Python module.

    seed → worlds (NumPy only: what stands where) → blender (builds it) → camera → render → shards

A world is a function from a random generator and a `Kit` (textures, models) to a `Scene`. Nothing but `blender`,
`shaders` and `render` imports bpy, so that layouts, cameras and manifests are tested without it.
"""
