"""python -m gridstride: the commands that the package has."""

import sys

import gridstride

COMMANDS = {
    'cpp program.cu': 'compile and run a CUDA program, checked where there is no GPU',
    'as_gpu program.py': 'run Python, or a notebook, that expects a GPU, without one',
    'judge submission.py': 'is a kernel right? Refused with the reason if not',
    'kernels export DIR': 'write each kernel as one .cu that checks and times itself',
    'kernels tuned': 'what `tune` has measured; `kernels forget` throws it away',
    'course.lessons run 01': 'execute lessons; `course.lessons progress` shows which exercises are solved',
    'course.doctor': 'what is here, what is missing, and the command that mends it',
}


def main(
    argv=(),  # none are taken
):
    "Print the commands"
    print(f'gridstride {gridstride.__version__}\n')
    for command, does in COMMANDS.items():
        print(f'python -m gridstride.{command:<21} {does}')
    print("\nIn Python: help('gridstride'); the README says which room has what.")
    if argv:
        named = next((c.split()[0] for c in COMMANDS if c.split()[0].endswith(argv[0])), argv[0])
        sys.exit(f'python -m gridstride does nothing else: is python -m gridstride.{named} meant, with a dot?')


if __name__ == '__main__':
    main(sys.argv[1:])
