"""No framework in particular."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

frameworks.register("plain")(
    Framework(summary="what training needs and nothing of a framework's own", source="no constants of its own")
)
