"""python -m gridstride: the commands that the package has."""

import sys

import gridstride

COMMANDS = {
    'cpp program.cu': 'compile and run a CUDA program, with all checks if there is no GPU',
    'as_gpu program.py': 'run Python, or a notebook, that expects a GPU, without one',
    'judge submission.py': 'judge a kernel: accept it, or refuse it with the reason',
    'kernels export DIR': 'write each kernel as one .cu that checks and times itself',
    'kernels tuned': 'show what `tune` has measured; `kernels forget` deletes it',
    'course.lessons run 01': 'execute lessons; `course.lessons progress` shows which exercises are solved',
    'course.doctor': 'show what is installed, what is missing, and the command that fixes it',
}


def main(
    argv=(),  # none are taken
):
    "Print the commands"
    print(f'gridstride {gridstride.__version__}\n')
    for command, does in COMMANDS.items():
        print(f'python -m gridstride.{command:<21} {does}')
    print("\nIn Python: help('gridstride'); the README lists the subpackages.")
    if argv:
        named = next((c.split()[0] for c in COMMANDS if c.split()[0].endswith(argv[0])), argv[0])
        sys.exit(f'python -m gridstride takes no command: did you mean python -m gridstride.{named}, with a dot?')


if __name__ == '__main__':
    main(sys.argv[1:])
