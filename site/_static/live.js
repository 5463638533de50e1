// The button of the home page replaces the picture of a data race by a notebook with the same program, to edit and run.
document.querySelectorAll('.live button').forEach(button => button.addEventListener('click', () => {
  const frame = document.createElement('iframe')
  frame.src = button.dataset.page
  frame.title = 'A kernel with a data race, to edit and run'
  button.closest('.moving').replaceChildren(frame)
  frame.focus()
}))
