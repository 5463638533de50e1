// A module is loaded in no child process first: a browser has none.
