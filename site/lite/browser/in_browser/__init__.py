"Replacements for what the lessons use and a browser lacks"
