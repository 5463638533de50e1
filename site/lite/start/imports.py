"Imports what the kernel and the lessons' first cells need; names are completed without jedi"
# ruff: noqa: F401

import piplite.piplite, pyodide_kernel
import matplotlib.cbook, matplotlib.pyplot, matplotlib_inline.backend_inline
import utils, torch
from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, PpmImagePlugin
from gridstride import draw, lesson
from gridstride.course import grading, runner

pyodide_kernel.ipython_shell.Completer.use_jedi = False
