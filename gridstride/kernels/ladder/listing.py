"""Show a step of a ladder in a lesson: its kernel, its changes from another step, or a copy in a new cell to edit."""

from ...cpp.listings import Listing, show_change, show_source

__all__ = ['listing', 'change', 'edit']


def _title(step):
    "Return the name, threads, dynamic shared memory and constants of a step"
    memory = f', {step.shared:,} bytes of dynamic shared memory' if step.shared else ''
    constants = ''.join(f', {name}={value}' for name, value in step.constants.items())
    return f'{step.name}: {"x".join(map(str, step.threads))} threads{memory}{constants}'


def listing(
    step,  # a `Rung`
    old=None,  # another step: lines that it does not have are marked
    fold=False,  # show only the title; a click unfolds the listing
) -> Listing:
    "Show the kernel of a step without the functions above it; its lines are numbered as in messages"
    title = _title(step) + (f'; marked: lines that {old.name} does not have' if old else '')
    return show_source(step, (_kernel_line(step), len(step.src.splitlines())), old=old, title=title, fold=fold)


def _kernel_line(step):
    return next(i for i, line in enumerate(step.src.splitlines(), 1) if '__global__' in line)


def change(step, old, by_words=False) -> Listing:
    "Show the lines in which a step differs from `old`; with `by_words` the words of the kernel, without its functions"
    title = f'{_title(step)}; compared with {old.name}'
    if not by_words:
        return show_change(step, old, title)
    first_lines = _kernel_line(step), _kernel_line(old)
    return show_change(step, old, title, by_words=True, first_lines=first_lines)


def edit(step):
    "Insert a cell with the source of a step below this one; running that cell replaces the step"
    from IPython import get_ipython

    shell = get_ipython()
    name = next(key for key, value in shell.user_ns.items() if value is step and not key.startswith('_'))
    shell.set_next_input(f"{name} = {name}.variant(src=r'''{step.src_without_constants}''')")
