"""One session as one file, to keep or to go on with on another machine."""

from perdure.exchange.exporting import exported, write_export
from perdure.exchange.importing import import_export
from perdure.exchange.lines import output_names

__all__ = ["exported", "import_export", "output_names", "write_export"]
