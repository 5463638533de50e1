"""A rung as a lesson shows it: its kernel, what it changes in another one, and a copy in a new cell to edit."""

from ...cpp.listings import Shown, show_change, show_source

__all__ = ['listing', 'change', 'edit']


def _title(rung):
    "Name, threads and constants of a rung"
    numbers = ''.join(f', {k}={v}' for k, v in rung.constants.items())
    return f'{rung.name}: {"x".join(map(str, rung.threads))} threads{numbers}'


def listing(
    rung,
    old=None,  # another rung: lines that it does not have are marked
    fold=False,  # show the title alone; a click unfolds the listing
) -> Shown:
    "Show the kernel of a rung, without the functions above it; lines are counted as messages count them"
    text = rung.src.splitlines()
    first = 1 + next(i for i, o in enumerate(text) if '__global__' in o)
    title = _title(rung) + (f'; marked is what {old.name} has not' if old else '')
    return show_source(rung, (first, len(text)), old=old, title=title, fold=fold)


def change(rung, old) -> Shown:
    "Show which lines a rung has instead of which lines of the rung `old`"
    return show_change(rung, old, f'{_title(rung)}; compared with {old.name}')


def edit(rung):
    "Put the whole source of a rung into a new cell below this one; to run it gives the rung's name to what it defines"
    from IPython import get_ipython

    shell = get_ipython()
    name = next(k for k, v in shell.user_ns.items() if v is rung and not k.startswith('_'))
    shell.set_next_input(f"{name} = {name}.tuned(src=r'''{rung.text}''')")
