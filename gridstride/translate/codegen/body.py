"""`Body`: writes the body of one function as lines of C."""

from .control_flow import ControlFlow
from .lines import SourceLines
from .parameters import Parameters
from .simple_statements import SimpleStatements
from .variables import Declarations, NameSharing


# The lines of one function, with the depth of each and the line of Python that it comes from.
class Body(Parameters, NameSharing, Declarations, SourceLines, SimpleStatements, ControlFlow):
    "Write the body of one function: `prepare()`, then `block(body, column)`; `lines` has the result"

    def __init__(self, f, names, writer):
        self.f = f
        self.names = names
        self.writer = writer
        self.source = f.source
        self.lines = []
