"""The state of lowering one function: its variables and their types, and the statements so far."""

from ...sim.constants import check_constants, outer_values
from ..flow import Variable, variables
from ..tree import Expr, Stmt
from ..types import describe, is_number, join_types


class Function:
    """The state of lowering one function for one set of argument types, which all parts of lowering share.

    The function is lowered repeatedly until no type changes (a fixed point); the last iteration is the result.
    An expression that needs a statement, such as a call with two results, emits it before the current statement.

    `out` is the list of statements of the current block. After lowering, `body` has the statements of the function,
    `parameter_exprs` the expressions of its parameters, and `result` its return type (None for nothing).
    """

    def __init__(self, unit, source, name, params):  # params: [(name, function that makes its expression)]
        self.unit = unit
        self.source = source
        self.name = name
        self.params = params
        self.doubles = unit.doubles
        self.is_kernel = unit.kernel is None
        check_constants(source.tree, outer_values(source.f), self.is_kernel, self.refuse)
        self.reads, self.stores = variables(source.tree)
        self.variables = list(dict.fromkeys(self.stores.values()))
        self.temporaries = {}
        self.result = None
        self.fields = None
        self.out = None
        self.parameter_exprs = []
        self.body = []
        self.arrays = unit.arrays(self)
        self.begin()

    def begin(self):
        "Begin an iteration over the function: forget all but the types"
        self.changed = False
        self.temporary_count = 0
        self.nesting = 0
        self.dynamic = {}  # dynamic shared memory, by dtype, once it is declared for the whole function
        for v in self.variables:
            v.memory = v.view = None

    def error(self, node, what, hint=''):
        "Return the `Untranslatable` that points at `node`"
        return self.source.error(node, what, hint)

    def refuse(self, node, what, hint=''):
        "Raise the `Untranslatable` that points at `node`"
        raise self.error(node, what, hint)

    def need_tuple(self, node, expr):
        "Return `expr`, which must be a tuple"
        if expr.op == 'tuple':
            return expr
        what = f'a loop over {describe(expr.type) if expr.type else "this"}'
        raise self.error(node, what, 'Loop over range(len(...)), or over a tuple.')

    def emit(self, kind, node, **parts):
        "Add a statement to the current block"
        last = getattr(node, 'end_lineno', node.lineno)
        stmt = Stmt(kind, node.lineno, **{'last': last, 'node': node, 'aug': None, **parts})
        self.out.append(stmt)
        return stmt

    def without_statements(self, node, lower):
        "Return the result of `lower()`; raises if it emits statements, which would run even where this part is skipped"
        statement_count = len(self.out)
        result = lower()
        if len(self.out) > statement_count:
            what = 'a call here needs a separate statement, which would run even if this part is skipped'
            raise self.error(node, what, 'Assign it to a variable before.')
        return result

    def add_type(self, node, variable, new_type):
        "Record that `variable` also holds values of type `new_type`"
        joined = join_types(variable.type, new_type, self.doubles)
        if joined is None and new_type is not None:
            raise self.clash(node, variable, new_type)
        self.changed |= joined != variable.type
        variable.type = joined
        if new_type is not None and variable.typed_at is None:
            variable.typed_at = node.lineno

    def clash(self, node, variable, new_type):
        "Make the error for a variable that would have two types"
        first_line = node.lineno if variable.typed_at is None else variable.typed_at
        earlier_line = f'line {first_line + self.source.first - 1} ({self.source.text(first_line)})'
        types = f'{describe(new_type)} here and {describe(variable.type)} in {earlier_line}'
        what = f'{variable.name} is {types}: a variable in C has one type'
        return self.error(node, what, 'Use two names.')

    # Variables that are not in the Python source
    def new_variable(self, node, name, type, unique_name=False):
        "Make a variable that is not in the Python source; `unique_name`: no other variable gets its name in C"
        key = node.lineno, node.col_offset, name, self.temporary_count
        self.temporary_count += 1
        if key not in self.temporaries:
            variable = self.temporaries[key] = Variable(name, node)
            variable.num_defs = 1
            self.variables.append(variable)
        variable = self.temporaries[key]
        variable.is_temporary = True
        variable.bounds = None
        variable.has_unique_name = unique_name
        variable.type = (
            join_types(variable.type, type, self.doubles) if variable.type is None or is_number(type or '') else type
        )
        return variable

    def temporary(self, node, name, type, expr, low=None, high=None):
        """Return a new variable, to which `expr` is assigned before the current statement.

        `low`, `high`: the least and the largest of its values, where they are known to be integers.
        """
        variable = self.new_variable(node, name, type)
        if low is not None:
            variable.bounds = low, high
        self.emit('assign', node, var=variable, expr=expr)
        return Expr('var', variable.type, value=variable)
