"""What is known of a function while it is lowered: its variables and their types, the statements so far."""

from ...sim.constants import check_constants, outer_values
from ..flow import Variable, variables
from ..tree import Expr, Stmt
from ..types import describe, is_number, join_types


class Function:
    """One function, for one set of types of its arguments: the state that all parts of lowering share.

    It is gone over several times, until no variable changes its type any more; what the last time made counts.
    Expressions that need a statement of their own, such as the two results of a function, put it before the
    statement at hand.

    `out` is the list of statements of the block at hand; after lowering `body` has those of the function,
    `given` the expressions of its parameters, `result` the type of what it returns (None for nothing).
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
        self.given = []
        self.body = []
        self.arrays = unit.arrays(self)
        self.begin()

    def begin(self):
        "Forget what one iteration over the function has found, except for the types"
        self.changed = False
        self.made = 0
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

    def need_tuple(self, node, e):
        "Return `e`, which must be a tuple"
        if e.op == 'tuple':
            return e
        what = f'a loop over {describe(e.type) if e.type else "this"}'
        raise self.error(node, what, 'Loop over range(len(...)), or over a tuple.')

    def emit(self, kind, node, **parts):
        "Add a statement to the current block"
        last = getattr(node, 'end_lineno', node.lineno)
        s = Stmt(kind, node.lineno, **{'last': last, 'node': node, 'aug': None, **parts})
        self.out.append(s)
        return s

    def alone(self, node, f):
        "Return what `f()` gives, which must not need statements of its own"
        n = len(self.out)
        res = f()
        if len(self.out) > n:
            what = 'a call here needs a statement of its own, and would run though this part is skipped'
            raise self.error(node, what, 'Assign it to a variable before.')
        return res

    def note_type(self, s, v, t):
        "Note that `v` holds a value of type `t`, too"
        new = join_types(v.type, t, self.doubles)
        if new is None and t is not None:
            raise self.clash(s, v, t)
        self.changed |= new != v.type
        v.type = new
        if t is not None and v.typed_at is None:
            v.typed_at = s.lineno

    def clash(self, s, v, t):
        "Return the error for a variable that would have two types"
        at = s.lineno if v.typed_at is None else v.typed_at
        there = f'line {at + self.source.first - 1} ({self.source.text(at)})'
        what = f'{v.name} is {describe(t)} here and {describe(v.type)} in {there}: one variable of C has one type'
        return self.error(s, what, 'Use two names.')

    # Variables that Python has not
    def new_variable(self, node, name, type, alone=False):
        "Make a variable that Python has not; `alone`: it shares its name with no other"
        key = node.lineno, node.col_offset, name, self.made
        self.made += 1
        if key not in self.temporaries:
            v = self.temporaries[key] = Variable(name, node)
            v.defs = 1
            self.variables.append(v)
        v = self.temporaries[key]
        v.temporary = True
        v.bounds = None
        v.alone = alone
        v.type = join_types(v.type, type, self.doubles) if v.type is None or is_number(type or '') else type
        return v

    def temporary(self, node, name, type, e, low=None, high=None):
        """A variable that has the value of `e`, assigned before the statement at hand.

        `low`, `high`: the least and the largest of its values, where they are known to be integers.
        """
        v = self.new_variable(node, name, type)
        if low is not None:
            v.bounds = low, high
        self.emit('assign', node, var=v, expr=e)
        return Expr('var', v.type, value=v)
