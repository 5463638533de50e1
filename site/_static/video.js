// Shows the lecture next to the lesson: links to YouTube open a player in the page (without this script they open
// YouTube). The page sends no request to YouTube before the first click.
'use strict'

const ADDRESS = /^https:\/\/youtu\.be\/([\w-]{11})(?:\?t=(\d+))?$/

function clock(seconds) {
  const [h, m, s] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(Math.floor)
  return (h ? [h, m, s] : [m, s]).map((x, i) => i ? String(x).padStart(2, '0') : x).join(':')
}

function button(text, label, act) {
  const b = document.createElement('button')
  b.type = 'button'
  b.textContent = text
  b.title = label
  b.setAttribute('aria-label', label)
  b.addEventListener('click', act)
  return b
}

function makeBox(first) {
  const box = document.createElement('aside')
  box.className = 'video-box'
  box.setAttribute('aria-label', 'The lecture of this lesson')
  const bar = document.createElement('div')
  bar.className = 'video-bar'
  const label = document.createElement('span')
  const player = document.createElement('div')
  player.className = 'video-stage'
  const fold = button('–', 'Collapse the video', () => {
    const folded = box.classList.toggle('folded')
    fold.textContent = folded ? '+' : '–'
    fold.setAttribute('aria-expanded', !folded)
  })
  const close = button('×', 'Close the video', () => {
    player.replaceChildren(start)
    box.classList.remove('playing')
    label.textContent = title
  })
  const title = `The lecture, from ${clock(first.at)}`
  label.textContent = title
  const start = button('▶', 'Play next to the text, from YouTube', () => play(first.id, first.at))
  start.className = 'video-start'
  const note = document.createElement('span')
  note.textContent = 'Play next to the text'
  start.append(note)
  player.append(start)
  bar.append(label, fold, close)
  box.append(bar, player)
  document.body.append(box)

  function play(id, at) {
    const frame = document.createElement('iframe')
    frame.src = `https://www.youtube-nocookie.com/embed/${id}?start=${at}&autoplay=1`
    frame.title = `The lecture at ${clock(at)}`
    frame.allow = 'autoplay; encrypted-media; fullscreen; picture-in-picture'
    frame.allowFullscreen = true
    frame.referrerPolicy = 'strict-origin-when-cross-origin'
    player.replaceChildren(frame)
    label.textContent = `The lecture at ${clock(at)}`
    box.classList.add('playing')
    if (box.classList.contains('folded')) fold.click()
  }
  return play
}

function sceneOf(link) {
  const [, id, at] = link.href.match(ADDRESS) ?? []
  return id && {id, at: Number(at ?? 0)}
}

const scenes = [...document.querySelectorAll('.bd-article a[href^="https://youtu.be/"]')]
  .map(link => [link, sceneOf(link)]).filter(([, scene]) => scene)
if (scenes.length) {
  const play = makeBox(scenes[0][1])
  for (const [link, scene] of scenes) {
    link.addEventListener('click', event => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return  // the reader asked for a new tab
      event.preventDefault()
      play(scene.id, scene.at)
    })
  }
}
