// The button of the home page replaces the picture of a data race by a notebook with the same program, to edit and run.
for (const button of document.querySelectorAll('.live button')) button.addEventListener('click', () => {
  const frame = document.createElement('iframe')
  frame.src = button.dataset.page
  frame.title = 'A kernel with a data race, to edit and run'
  button.closest('.moving').replaceChildren(frame)
  frame.focus()
})
