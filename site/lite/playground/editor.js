// The editor: CodeMirror, with the lines of a finding marked. Tab leaves it, Mod-Enter runs the program.
import {defaultKeymap, history, historyKeymap} from '@codemirror/commands'
import {cpp} from '@codemirror/lang-cpp'
import {python} from '@codemirror/lang-python'
import {bracketMatching, indentOnInput, indentUnit, syntaxHighlighting} from '@codemirror/language'
import {Compartment, EditorState, StateEffect, StateField} from '@codemirror/state'
import {Decoration, EditorView, drawSelection, keymap, lineNumbers, WidgetType} from '@codemirror/view'
import {classHighlighter} from '@lezer/highlight'

const IS_CPP = /^(?:#include|__global__|template|int main\b)/m

// A line of the finding's text, below the line of the program
class Note extends WidgetType {
    constructor(text, kind) { super(), this.text = text, this.kind = kind }
    eq(other) { return other.text == this.text && other.kind == this.kind }
    toDOM() {
        const row = document.createElement('div')
        row.className = `note ${this.kind}`
        row.textContent = this.text
        return row
    }
}
const setFinding = StateEffect.define()
const marks = StateField.define({
    create: () => Decoration.none,
    update(shown, transaction) {
        for (const effect of transaction.effects)
            if (effect.is(setFinding)) return decorate(transaction.state.doc, effect.value)
        return transaction.docChanged ? Decoration.none : shown
    },
    provide: field => EditorView.decorations.from(field),
})
function decorate(text, {line, other, message = ''}) {
    const rows = [[line, 'now', message.split('\n')[0]]]
    if (other != line) rows.push([other, 'before', 'the other access'])
    return Decoration.set(rows.filter(([n]) => n && n <= text.lines).flatMap(row => markLine(text, ...row)), true)
}
function markLine(text, n, kind, note) {
    const {from, to} = text.line(n), attributes = {'data-line': `${n}`}
    return [Decoration.line({class: kind, attributes}).range(from),
        Decoration.widget({widget: new Note(note, kind), block: true, side: 1}).range(to)]
}

const language = new Compartment()
const languageOf = text => IS_CPP.test(text) ? cpp() : python()

// `onRun` is called by the keyboard. Returns {text, setText, mark}.
export function createEditor(parent, onRun) {
    const run = {key: 'Mod-Enter', run: () => { onRun(); return true }}
    const extensions = [history(), drawSelection(), lineNumbers(), bracketMatching(), indentOnInput(),
        indentUnit.of('    '), EditorState.tabSize.of(4), syntaxHighlighting(classHighlighter), marks,
        keymap.of([run, ...defaultKeymap, ...historyKeymap]), language.of([]),
        EditorView.contentAttributes.of({tabindex: '0', id: 'program', 'aria-label': 'Program'})]
    const view = new EditorView({parent, extensions})
    return {
        text: () => view.state.doc.toString(),
        setText(text) {
            const changes = {from: 0, to: view.state.doc.length, insert: text}
            view.dispatch({changes, effects: language.reconfigure(languageOf(text))})
        },
        mark(finding) {
            const {doc} = view.state, effects = [setFinding.of(finding ?? {})]
            if (finding?.line && finding.line <= doc.lines)
                effects.push(EditorView.scrollIntoView(doc.line(finding.line).from, {y: 'nearest'}))
            view.dispatch({effects})
        },
    }
}
