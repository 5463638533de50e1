"What the lecture videos call `from utils import *`."
from gridstride.utils import *
