"""`BodyEmitter`: emits the body of a function as lines of C."""

from .control_flow import ControlFlow
from .lines import SourceLines
from .parameters import Parameters
from .simple_statements import SimpleStatements
from .variables import Declarations, NameSharing


class BodyEmitter(Parameters, NameSharing, Declarations, SourceLines, SimpleStatements, ControlFlow):
    "Emits the body of a function: call `prepare()`, then `block(body, column)`; the result is in `lines`"

    def __init__(self, function, names, emitter):
        self.function = function
        self.names = names
        self.emitter = emitter
        self.source = function.source
        self.lines = []
