"Who imports this first imports all else in four fifths of the time: nobody looks for garbage meanwhile."
import gc

gc.disable()
