// An editor where the site has no CodeMirror: a text field. A finding's text names its lines.
export function createEditor(parent, onRun) {
    const field = document.createElement('textarea')
    Object.assign(field, {id: 'program', ariaLabel: 'Program', spellcheck: false, autocapitalize: 'off'})
    field.onkeydown = event => { if (event.key == 'Enter' && (event.ctrlKey || event.metaKey)) onRun() }
    parent.append(field)
    return {text: () => field.value, setText(text) { field.value = text }, mark() {}}
}
