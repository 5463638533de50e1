"""The state of lowering one function: its variables, their types, and the statements that have been lowered."""

from ...sim.constants import check_constants, outer_values
from ..flow import Variable, variables
from ..tree import Expr, Stmt
from ..types import describe_type, is_number, join_types


class Function:
    """The state of lowering one function for one set of argument types.

    The function is lowered repeatedly until no type changes (a fixed point); the last iteration is the result.
    An expression that needs a statement, such as a call with two results, emits it before the current statement.

    `current_block` is the list of statements of the block that is being lowered. After lowering, `body` has the
    statements of the function, `parameter_exprs` the expressions of its parameters, and `result_type` its return type
    (None if it returns nothing).
    """

    def __init__(self, unit, source, name, params):  # params: [(name, function that makes its expression)]
        self.unit = unit
        self.source = source
        self.name = name
        self.params = params
        self.numba_types = unit.numba_types
        self.is_kernel = unit.kernel is None
        check_constants(source.tree, outer_values(source.function), self.is_kernel, self.raise_error)
        self.reads, self.stores = variables(source.tree)
        self.variables = list(dict.fromkeys(self.stores.values()))
        self.temporaries = {}
        self.result_type = None
        self.result_names = None  # names of the items of the tuple that it returns; None for an item without a name
        self.current_block = None
        self.parameter_exprs = []
        self.body = []
        self.arrays = unit.arrays_class(self)
        self.begin_iteration()

    def begin_iteration(self):
        "Begin an iteration over the function: reset everything except the types"
        self.have_types_changed = False
        self.num_temporaries = 0
        self.nesting_depth = 0
        self.dynamic_arrays = {}  # dtype -> the array of all dynamic shared memory, if the whole function can use it
        for variable in self.variables:
            variable.buffer = variable.view = None

    def error(self, node, message, hint=''):
        "Return the `Untranslatable` that points at `node`"
        return self.source.error(node, message, hint)

    def raise_error(self, node, message, hint=''):
        "Raise the `Untranslatable` that points at `node`"
        raise self.error(node, message, hint)

    def require_tuple(self, node, expr):
        "Return `expr` if it is a tuple, over which a loop iterates; else raise an error"
        if expr.op == 'tuple':
            return expr
        message = f'a loop cannot iterate over {describe_type(expr.type) if expr.type else "this"}'
        raise self.error(node, message, 'Loop over range(len(...)), or over a tuple.')

    def emit(self, kind, node, **fields):
        "Add a statement to the current block"
        last_line = getattr(node, 'end_lineno', node.lineno)
        stmt = Stmt(kind, node.lineno, **{'last_line': last_line, 'node': node, 'aug_op': None, **fields})
        self.current_block.append(stmt)
        return stmt

    def add_type(self, node, variable, new_type):
        "Record that `variable` also holds values of type `new_type`"
        joined_type = join_types(variable.type, new_type, self.numba_types)
        if joined_type is None and new_type is not None:
            raise self.type_conflict(node, variable, new_type)
        self.have_types_changed |= joined_type != variable.type
        variable.type = joined_type
        if new_type is not None and variable.first_type_line is None:
            variable.first_type_line = node.lineno

    def type_conflict(self, node, variable, new_type):
        "Return the error for a variable that would have two types"
        first_line = node.lineno if variable.first_type_line is None else variable.first_type_line
        earlier_line = f'line {first_line + self.source.first_line - 1} ({self.source.text(first_line)})'
        types = f'{describe_type(new_type)} here and {describe_type(variable.type)} in {earlier_line}'
        message = f'{variable.name} is {types}: a variable in C has one type'
        return self.error(node, message, 'Use two names.')

    def new_variable(self, node, name, type, has_unique_name=False):
        "Return a variable that is not in the Python source; `has_unique_name`: no other variable has its name in C"
        key = node.lineno, node.col_offset, name, self.num_temporaries
        self.num_temporaries += 1
        if key not in self.temporaries:
            variable = self.temporaries[key] = Variable(name, node)
            variable.num_defs = 1
            self.variables.append(variable)
        variable = self.temporaries[key]
        variable.is_temporary = True
        variable.bounds = None
        variable.has_unique_name = has_unique_name
        is_joined = variable.type is None or is_number(type or '')
        variable.type = join_types(variable.type, type, self.numba_types) if is_joined else type
        return variable

    def temporary(self, node, name, type, expr, low=None, high=None):
        """Return a new variable, to which `expr` is assigned before the current statement.

        `low`, `high`: the bounds of its values, if they are known.
        """
        variable = self.new_variable(node, name, type)
        if low is not None:
            variable.bounds = low, high
        self.emit('assign', node, var=variable, expr=expr)
        return Expr('var', variable.type, value=variable)
