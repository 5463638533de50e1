"""`Body`: writes the body of a function as lines of C."""

from .control_flow import ControlFlow
from .lines import SourceLines
from .parameters import Parameters
from .simple_statements import SimpleStatements
from .variables import Declarations, NameSharing


class Body(Parameters, NameSharing, Declarations, SourceLines, SimpleStatements, ControlFlow):
    "Writes the body of a function: call `prepare()`, then `block(body, column)`; the result is in `lines`"

    def __init__(self, function, names, writer):
        self.function = function
        self.names = names
        self.writer = writer
        self.source = function.source
        self.lines = []
