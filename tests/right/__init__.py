"Right answers that are written otherwise than the lessons' own: none of them may be refused."
from marked import marks

answers, right = marks()
