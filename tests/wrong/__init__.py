"Wrong answers to the exercises, of the kinds that learners give: every one of them must be refused."
from marked import marks

answers, wrong = marks()
