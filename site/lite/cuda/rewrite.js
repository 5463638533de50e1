// Rewrites a linked WebAssembly module so that the emulator's runtime knows where the user's code is, because
// WebAssembly has no return addresses. Before each call in the user's functions, the global `gridstride_pc` gets the
// offset of the call in the code section, which is its address in the debug information. Where a loop begins again,
// `gridstride_fuel` is counted down, and at zero `gridstride_tick` checks the time limit. Where the stack pointer is set,
// `gridstride_stack_overflow` is called if it is below `gridstride_stack_limit`: the stacks of fibers have no guard page.

function encode(value, signed) {
    const bytes = []
    for (;;) {
        const byte = value & 127
        value = signed ? value >> 7 : value >>> 7
        const ends = signed ? (value == 0 && !(byte & 64)) || (value == -1 && byte & 64) : value == 0
        bytes.push(ends ? byte : byte | 128)
        if (ends) return bytes
    }
}
const constant = n => [0x41, ...encode(n, true)]

class Reader {
    constructor(bytes, at = 0) { this.bytes = bytes; this.at = at }
    byte() { return this.bytes[this.at++] }
    number() {
        let value = 0, shift = 0, byte
        do { byte = this.bytes[this.at++]; value |= (byte & 127) << shift; shift += 7 } while (byte & 128)
        return value >>> 0
    }
    skipInteger() { while (this.bytes[this.at++] & 128) ; }
    skipIntegers(n) { while (n-- > 0) this.skipInteger() }
    name() {
        const n = this.number()
        this.at += n
        return new TextDecoder().decode(this.bytes.subarray(this.at - n, this.at))
    }
    skipLimits() { this.skipIntegers(1 + (this.number() & 1)) }
    skipMemoryArgument() { if (this.number() & 64) this.skipInteger(); this.skipInteger() }
    // Skips the immediate operands of an instruction.
    skipOperands(code) {
        if ([0x02, 0x03, 0x04, 0x0c, 0x0d, 0x10].includes(code)) this.skipInteger()
        else if (code == 0x0e) this.skipIntegers(this.number() + 1)
        else if (code == 0x11) this.skipIntegers(2)
        else if (code == 0x1c) this.skipIntegers(this.number())
        else if (code >= 0x20 && code <= 0x26) this.skipInteger()
        else if (code >= 0x28 && code <= 0x3e) this.skipMemoryArgument()
        else if (code >= 0x3f && code <= 0x42) this.skipInteger()
        else if (code == 0x43) this.at += 4
        else if (code == 0x44) this.at += 8
        else if (code == 0xd0 || code == 0xd2) this.skipInteger()
        else if (code == 0xfc) this.skipIntegers([0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1][this.number()])
        else if (code >= 0xd3) throw new Error(`unknown instruction 0x${code.toString(16)}`)
    }
}

function readSections(bytes) {
    const reader = new Reader(bytes, 8), sections = []
    while (reader.at < bytes.length) {
        const start = reader.at, id = reader.byte(), size = reader.number()
        sections.push({id, start, begin: reader.at, end: reader.at + size})
        reader.at += size
    }
    return sections
}
const ofKind = (sections, id) => sections.find(section => section.id == id)

// Returns a module without the names of its functions: their addresses are not those of the debug information, and
// addr2line would report the name of another function.
export function withoutNames(bytes) {
    const isNames = section => section.id == 0 && new Reader(bytes, section.begin).name() == 'name'
    const kept = readSections(bytes).filter(section => !isNames(section))
    return join([bytes.subarray(0, 8), ...kept.map(section => bytes.subarray(section.start, section.end))])
}

function countImportedFunctions(bytes, section) {
    const reader = new Reader(bytes, section.begin)
    let count = 0
    for (let n = reader.number(); n > 0; n--) {
        reader.name(), reader.name()
        const kind = reader.byte()
        if (kind == 0) count++, reader.skipInteger()
        else if (kind == 1) reader.byte(), reader.skipLimits()
        else if (kind == 2) reader.skipLimits()
        else reader.at += 2
    }
    return count
}
function readExports(bytes, section) {
    const reader = new Reader(bytes, section.begin), res = {}
    for (let n = reader.number(); n > 0; n--) {
        const name = reader.name()
        reader.byte()
        res[name] = reader.number()
    }
    return res
}

// Returns a function body with the inserted instructions. `note(at, grown)` is called with the offset after each of
// them, and how many bytes were inserted so far.
function rewriteBody(bytes, from, to, codeBegin, index, note) {
    const reader = new Reader(bytes, from), pieces = []
    for (let n = reader.number(); n > 0; n--) reader.skipInteger(), reader.byte()    // local variables
    let copied = from, grown = 0
    const insert = (at, instructions) => {
        pieces.push(bytes.subarray(copied, at), Uint8Array.from(instructions))
        copied = at, grown += instructions.length
        note(at, grown)
    }
    const storeLocation = at => [...constant(at - codeBegin + 1), 0x24, ...encode(index.gridstride_pc)]
    const fuel = encode(index.gridstride_fuel), pointer = encode(index.__stack_pointer)
    const setsStackPointer = at => bytes[at] == 0x24 && new Reader(bytes, at + 1).number() == index.__stack_pointer
    const checkStack = at => [0x23, ...pointer, 0x23, ...encode(index.gridstride_stack_limit), 0x49, 0x04, 0x40,
        ...storeLocation(at), 0x10, ...encode(index.gridstride_stack_overflow), 0x0b]
    while (reader.at < to) {
        const at = reader.at, code = reader.byte()
        reader.skipOperands(code)
        if (code == 0x10 || code == 0x11) insert(at, storeLocation(at))
        if (setsStackPointer(at)) insert(reader.at, checkStack(at))
        if (code == 0x03) insert(reader.at, [0x23, ...fuel, ...constant(1), 0x6b, 0x24, ...fuel, 0x23, ...fuel, 0x45,
            0x04, 0x40, ...storeLocation(at), 0x10, ...encode(index.gridstride_tick), 0x0b])
    }
    pieces.push(bytes.subarray(copied, to))
    return {pieces, grown}
}
function join(pieces) {
    const res = new Uint8Array(pieces.reduce((n, piece) => n + piece.length, 0))
    let at = 0
    for (const piece of pieces) res.set(piece, at), at += piece.length
    return res
}

// Returns {bytes, offsetOf}: the module, and a function from an offset in it to the offset in the code section of the
// original, null if it is not in the user's code: the functions between `gridstride_begin_of_user_code` and
// `gridstride_end_of_user_code`.
export function rewrite(bytes) {
    const sections = readSections(bytes), code = ofKind(sections, 10)
    const index = readExports(bytes, ofKind(sections, 7))
    const firstBody = countImportedFunctions(bytes, ofKind(sections, 2))
    const reader = new Reader(bytes, code.begin), count = reader.number()
    const firstUser = index.gridstride_begin_of_user_code + 1 - firstBody, bodies = reader.at
    for (let i = 0; i < firstUser; i++) {
        const size = reader.number()
        reader.at += size
    }
    const notes = [], body = [Uint8Array.from(encode(count)), bytes.subarray(bodies, reader.at)]
    let written = body[0].length + body[1].length, userEnd = reader.at
    for (let i = firstUser; i < index.gridstride_end_of_user_code - firstBody; i++) {
        const size = reader.number(), from = reader.at, to = from + size, mine = []
        const {pieces, grown} = rewriteBody(bytes, from, to, code.begin, index, (at, n) => mine.push([at, n]))
        const head = Uint8Array.from(encode(size + grown))
        body.push(head, ...pieces)
        written += head.length
        notes.push([written, from])
        for (const [at, n] of mine) notes.push([written + at - from + n, at])
        written += size + grown
        reader.at = userEnd = to
    }
    body.push(bytes.subarray(userEnd, code.end))
    const codeBytes = join(body), head = [10, ...encode(codeBytes.length)]
    const kept = sections.filter(section => section.start > code.start && section.id)      // without debug information
    const res = join([bytes.subarray(0, code.start), Uint8Array.from(head), codeBytes,
        ...kept.map(section => bytes.subarray(section.start, section.end))])
    const base = code.start + head.length, end = base + written
    const offsetOf = at => {
        if (!notes.length || at < base + notes[0][0] || at >= end) return null
        let low = 0, high = notes.length
        while (low + 1 < high) {
            const middle = low + high >> 1
            notes[middle][0] <= at - base ? low = middle : high = middle
        }
        return notes[low][1] + (at - base - notes[low][0]) - code.begin
    }
    return {bytes: res, offsetOf}
}
