"The hints of Triton's arguments: expressions without side effects."
import ast

from gridstride.tile import hints


class Uncopyable:
    def __deepcopy__(self, memo): raise AssertionError('copied what another library has attached to a node')


def test_what_other_libraries_attach_to_a_tree_is_not_copied():
    "Python shares one `Load` among all trees, and IPython's tracebacks link each node to its parent"
    node = ast.parse('offsets + 2*pid', mode='eval').body
    load = node.left.ctx
    assert load is ast.parse('x', mode='eval').body.ctx
    load.parent = Uncopyable()
    try:
        copied = hints._copy_tree(node)
        assert ast.dump(copied) == ast.dump(node) and copied.right is not node.right
        assert (copied.lineno, copied.right.col_offset) == (1, 10)
        assert hints.hint(node, {name: ast.parse(name, mode='eval').body for name in ('offsets', 'pid')})
    finally: del load.parent
