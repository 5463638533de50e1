"""Random kernels of the dialect: right by construction, and readable.

Every expression knows its type (Numba's), the range of its values and, if it is a float, the power of two that they are
multiples of. So an index is in bounds, a divisor is not 0, a float has few enough bits to be exact in any order, an
integer is far from overflow unless it is meant to wrap; and no other thread accesses a written element before a
barrier.
"""
import math
from collections import namedtuple

import numpy as np
from hypothesis import strategies as st

from cases import Case, array

INTS = ['int64','int32','int8','uint8','int16','uint16','uint32','uint64']
BITS = 24            # of a float that is exact as a float32
WORD = 2**20         # int variables stay below this
LONG = 60            # letters of an expression, about
UP_TO = [st.integers(0, n) for n in range(24)]
E = namedtuple('E', 'text prec type lo hi q')  # an expression; values are in [lo, hi], and multiples of 2**q
Array = namedtuple('Array', 'name shape type lo hi q owned')   # owned: written by who has its index
ATOM,POWER,UNARY,TIMES,PLUS,SHIFT,AND,XOR,OR,COMPARE,NOT,BOTH,EITHER,CHOICE = range(14, 0, -1)


def unsigned(t): return t[0]=='u'
def bounds(t): return (0,1) if t=='bool' else (int(np.iinfo(t).min), int(np.iinfo(t).max))
def whole(t): return not t.startswith('float')

def result(op, a, b):
    "Numba's type of `a op b`"
    if whole(a) and whole(b):
        if op=='/': return 'float64'
        if op in '& | ^' and a==b=='bool': return 'bool'
        return 'uint64' if unsigned(a) and (unsigned(b) or op in ('<<','>>')) else 'int64'
    return np.promote_types(a, b).name

def made(text, prec, type, lo, hi, q=0):
    "The expression, or None if its values could differ between engines"
    if whole(type):
        if type=='uint64' and lo < 0: lo,hi = bounds(type)     # wraps, as it must
        if type=='int64' and max(-lo,hi) >= 2**62: return None
        low,high = bounds(type)
        return E(text, prec, type, lo, hi, 0) if low <= lo and hi <= high else None
    return E(text, prec, type, lo, hi, q) if q >= -16 and max(-lo,hi) < 2.**(BITS+q) and max(-lo,hi) < 2**BITS else None

def inside(e, prec): return e.text if e.prec >= prec else f'({e.text})'

def corners(f, a, b): return (lambda v: (min(v),max(v)))([f(x,y) for x in (a.lo,a.hi) for y in (b.lo,b.hi)])

def number(v, type=None):
    q = 0 if isinstance(v, int) else min(0, -int(math.log2(v.as_integer_ratio()[1])))
    return E(repr(v), ATOM if v >= 0 else UNARY, type or ('int64' if isinstance(v, int) else 'float64'), v, v, q)

def binary(op, a, b):
    "`a op b`, or None"
    t = result(op, a.type, b.type)
    prec = {'+':PLUS,'-':PLUS,'<<':SHIFT,'>>':SHIFT,'&':AND,'^':XOR,'|':OR,'**':POWER}.get(op, TIMES)
    text = (f'{inside(a, prec + (op=="**"))} {op} {inside(b, prec+1)}' if prec!=POWER
            else f'{inside(a, ATOM)}**{inside(b, ATOM)}')
    q = min(a.q, b.q)
    if not whole(t) and any(whole(o.type) and max(-o.lo,o.hi) >= 2**BITS for o in (a,b)): return None
    # does not fit when it becomes signed
    if whole(t) and t!='uint64' and max(a.hi, b.hi) >= 2**63 and op!='&': return None
    if op=='+': return made(text, prec, t, a.lo+b.lo, a.hi+b.hi, q)
    if op=='-': return made(text, prec, t, a.lo-b.hi, a.hi-b.lo, q)
    if op=='*': return made(text, prec, t, *corners(lambda x,y: x*y, a, b), a.q+b.q)
    if op in ('//','%'):
        if b.lo <= 0 <= b.hi: return None
        most = max(abs(b.lo), abs(b.hi))
        least = min(abs(b.lo), abs(b.hi))
        if t=='uint64' and a.lo < 0: return None
        if op=='%': return made(text, prec, t, 0 if b.lo > 0 else -most, most if b.hi > 0 else 0, q)
        span = max(abs(a.lo), abs(a.hi))/least
        return made(text, prec, t, 0 if a.lo >= 0 and b.lo > 0 else -math.ceil(span)-1, math.ceil(span)+1)
    if op=='/':
        v = b.lo
        if not b.lo==b.hi or not v or abs(math.frexp(v)[0])!=.5: return None  # by a power of two it is exact
        k = math.frexp(v)[1]-1
        lo,hi = sorted((a.lo/v, a.hi/v))
        return made(text, prec, t, lo, hi, a.q-k)
    if op in ('&','|','^'):
        if op=='&' and min(b.lo,a.lo) >= 0 and t!='bool': return made(text, prec, t, 0, min(b.hi, a.hi))
        if op=='&' and b.lo==b.hi >= 0: return made(text, prec, t, 0, b.hi)
        n = max(abs(o) for o in (a.lo, a.hi, b.lo, b.hi)).bit_length()
        return made(text, prec, t, 0 if min(a.lo,b.lo) >= 0 else -2**n, 1 if t=='bool' else 2**n-1)
    if b.lo < 0: return None
    if op=='<<': return made(text, prec, t, *corners(lambda x,y: x << y, a, b)) if b.hi <= 24 else None
    if op=='>>': return made(text, prec, t, *corners(lambda x,y: x >> y, a, b)) if b.hi <= 60 else None
    if op=='**':
        if b.hi > 5 or not whole(b.type): return None
        if not whole(t) and not b.lo==b.hi >= 2: return None  # by a constant: products
        most = max(abs(a.lo), abs(a.hi), 1)**b.hi
        return made(text, prec, a.type if not whole(t) else t, -most if a.lo < 0 else 0, most, a.q*b.hi)


class Writer:
    "Writes one kernel; `draw` decides"
    def __init__(self, draw):
        self.draw,self.lines,self.depth = draw,[],1
        self.head,self.params,self.args,self.arrays,self.closed = [],[],[],[],{}
        # fixed: expressions that can be used as they are; vars: name -> E, may be changed; sums:
        # what may still be added
        self.fixed,self.vars,self.sums,self.names = [],{},{},0
        self.trips,self.locked,self.devices,self.kernel,self.indexing = 1,set(),[],True,False

    def below(self, n): return self.draw(UP_TO[n-1])
    def pick(self, options): return options[self.below(len(options))]
    def rarely(self, n=4): return self.below(n+1)==n
    def fresh(self, what):
        self.names += 1
        return f'{what}{self.names}'
    def line(self, text): self.lines.append('    '*self.depth + text)

    # expressions

    def int_literal(self): return number(self.pick([1,2,3,5,7,0,-1,-3,10,100,255,-17]))
    def float_literal(self): return number(self.pick([0.5,2.0,1.0,0.25,-1.5,3.0,-0.75]))

    def ints(self): return [e for e in (*self.fixed, *self.vars.values()) if whole(e.type) and e.type!='bool']
    def floats(self): return [e for e in (*self.fixed, *self.vars.values()) if not whole(e.type)]
    def bools(self): return [e for e in (*self.fixed, *self.vars.values()) if e.type=='bool']

    def leaf(self, is_integer):
        if self.rarely(2) and (e := self.element(is_integer)): return e
        known = self.ints() if is_integer else self.floats()
        if known and not self.rarely(3): return self.pick(known)
        return self.int_literal() if is_integer else self.float_literal()

    def index(self, size, text):
        "An index for an axis of `size` elements"
        e = self.int(1)
        if e.type=='uint64' and e.hi >= 2**62: e = number(3)
        return f'{inside(e, TIMES)} % {text}'

    def part(self):
        "A slice, or a row, of a read-only array"
        good = [a for a in self.arrays if not a.owned and a.type!='bool' and len(a.shape) <= 2]
        if not good: return self.new_fixed()
        a,name = self.pick(good),self.fresh('part')
        if len(a.shape)==2:
            n,text = a.shape[1],f'{a.name}[{self.index(a.shape[0], f"{a.name}.shape[0]")}]'
            if self.rarely(1): n,text = a.shape[0],f'{a.name}[:, {self.index(a.shape[1], f"{a.name}.shape[1]")}]'
        else:
            lo,hi,step = self.pick([(2,None,1),(None,5,1),(1,5,2)])
            n,text = (len(range(a.shape[0])[lo:hi:step]),
                      f'{a.name}[{"" if lo is None else lo}:{"" if hi is None else hi}{":2" if step==2 else ""}]')
        self.line(f'{name} = {text}')
        self.arrays.append(a._replace(name=name, shape=(n,)))

    def element(self, is_integer):
        "An element of a read-only array"
        good = [a for a in self.arrays if not a.owned and a.type!='bool' and whole(a.type)==is_integer]
        if not good or self.indexing: return None
        a = self.pick(good)
        self.indexing = True
        at = [self.index(n, f'{a.name}.size' if len(a.shape)==1 else f'{a.name}.shape[{ax}]')
              for ax,n in enumerate(a.shape)]
        self.indexing = False
        return self.loaded(a, ', '.join(at))

    def loaded(self, a, at):
        if a.type=='float16': return E(f'np.float32({a.name}[{at}])', ATOM, 'float32', a.lo, a.hi, a.q)
        return E(f'{a.name}[{at}]', ATOM, a.type, a.lo, a.hi, a.q)

    def int(self, depth=2):
        "An expression that is an integer"
        for _ in range(3):
            e = self.try_int(depth) if depth else None
            if e and len(e.text) < LONG: return e
        return self.leaf(True)

    def try_int(self, depth):
        kind = self.below(16)
        if kind < 2: return self.leaf(True)
        a = self.int(depth-1)
        if kind < 6: return binary(self.pick('+-*'), a, self.int(depth-1))
        if kind < 8: return binary(self.pick(['//','%']), a, self.divisor(depth-1))
        if kind==8: return binary(self.pick('&|^'), a, self.pick([number(15), number(1023), self.int(depth-1)]))
        if kind==9: return binary(self.pick(['>>','<<']), a, self.pick([number(1), number(3), self.small(8)]))
        if kind==10: return self.chosen(a, depth)
        if kind==11: return self.least(a, self.int(depth-1))
        if kind==12: return self.cast(a)
        if kind==13: return self.unusual(a, depth)
        if kind==14: return binary(self.pick('+*-'), a, self.bool(depth-1))
        return self.from_float(depth) if self.floats() else self.called(True)

    def small(self, n): return binary('%', self.signed(self.int(1)), number(n))

    def signed(self, e):
        "`e` as an int64"
        if e.type=='int64' or e.type=='uint64' and e.hi >= 2**62:
            return e if e.type=='int64' else binary('&', e, number(1023))
        return E(f'np.int64({e.text})', ATOM, 'int64', e.lo, e.hi, 0)

    def divisor(self, depth):
        kind = self.below(4)
        if kind < 2: return number(self.pick([3,2,7,-2,-5,16,1000]))
        e = binary('%', self.signed(self.int(depth)), number(self.pick([5,9])))
        e = binary('+', e, number(1))
        return e if kind==2 else E(f'-({e.text})', UNARY, 'int64', -e.hi, -e.lo, 0)

    def least(self, a, b):
        if a.type==b.type=='bool' or 'uint64' in (a.type,b.type) and not (unsigned(a.type) and unsigned(b.type)):
            return None
        t = a.type if a.type==b.type else np.promote_types(a.type, b.type).name
        if (not whole(t) and whole(a.type)!=whole(b.type)
            and max(abs(o) for e in (a,b) if whole(e.type) for o in (e.lo,e.hi)) >= 2**BITS):
            return None
        f = self.pick([min,max])
        return made(f'{f.__name__}({a.text}, {b.text})', ATOM, t, f(a.lo,b.lo), f(a.hi,b.hi), min(a.q,b.q))

    def chosen(self, a, depth):
        "`a if c else b`"
        b,c = self.int(depth-1) if whole(a.type) else self.float(depth-1),self.bool(1)
        if a.type!=b.type and whole(a.type): a,b = self.signed(a),self.signed(b)
        if a is None or b is None: return None
        t = a.type if a.type==b.type else np.promote_types(a.type, b.type).name
        return made(f'{inside(a, EITHER)} if {inside(c, EITHER)} else {inside(b, CHOICE)}', CHOICE, t, min(a.lo,b.lo),
                    max(a.hi,b.hi), min(a.q,b.q))

    def cast(self, a):
        t = self.pick(['int32','uint8','int8','int64','uint16','uint32'])
        lo,hi = bounds(t)
        return E(f'np.{t}({a.text})', ATOM, t, *((a.lo,a.hi) if lo <= a.lo and a.hi <= hi else (lo,hi)), 0)

    def unusual(self, a, depth):
        kind = self.below(8)
        if kind==7:
            a,b = self.signed(a),self.signed(self.int(depth-1))
            word,prec = self.pick([('and',BOTH),('or',EITHER)])
            return made(f'{inside(a, prec)} {word} {inside(b, prec+1)}', prec, 'int64', min(a.lo,b.lo,0),
                        max(a.hi,b.hi,0))
        if kind==0: return made(f'abs({a.text})', ATOM, a.type, 0, max(-a.lo,a.hi)) if a.type=='int64' else None
        if kind==1: return E(f'-{inside(a, ATOM)}', UNARY, 'int64', -a.hi, -a.lo, 0) if a.type=='int64' else None
        if kind==2: return E(f'~{inside(a, ATOM)}', UNARY, 'int64', ~a.hi, ~a.lo, 0) if a.type=='int64' else None
        if kind==3: return binary('**', self.small(9), self.pick([number(2), number(3), self.small(5)]))
        if kind==4:
            return (E(f'cuda.{self.pick(["popc","clz","ffs"])}({a.text})', ATOM, 'int64', 0, 64, 0)
                    if a.type in ('int64','int32','uint32') else None)
        if kind==5: return self.hash(a)
        return self.called(True)

    def hash(self, a):
        "A step of a random generator: wraps at 64 bits, or is cut to 31"
        a = self.signed(a)
        if self.rarely(2):
            return E(f'({inside(a, TIMES)} * 6364136223846793005 + 1442695040888963407) >> 33', SHIFT, 'int64',
                     -2**30, 2**30-1, 0)
        if max(-a.lo,a.hi) >= 2**31: return None
        return E(f'({inside(a, TIMES)} * 1103515245 + 12345) & 2147483647', AND, 'int64', 0, 2**31-1, 0)

    def from_float(self, depth):
        a = self.float(depth-1)
        if whole(a.type): return None
        f = self.pick(['int','round','math.floor','math.ceil'])
        return E(f'{f}({a.text})', ATOM, 'int64', math.floor(a.lo), math.ceil(a.hi), 0)

    def float(self, depth=2):
        "An expression that is a float, of few bits"
        for _ in range(3):
            e = self.try_float(depth) if depth else None
            if e and not whole(e.type) and len(e.text) < LONG: return e
        return self.leaf(False)

    def try_float(self, depth):
        kind = self.below(13)
        if kind < 2: return self.leaf(False)
        a = self.float(depth-1)
        if kind < 7: return binary(self.pick('+-*'), a, self.float(depth-1))
        if kind==7: return binary(self.pick('+*-'), a, self.int(depth-1))
        if kind==8: return binary(self.pick(['/','//','%']), a, number(self.pick([2.0,4.0,0.5,-2.0])))
        if kind==9: return binary('/', self.signed(self.int(depth-1)), number(self.pick([2,8,-4])))
        if kind==10: return self.chosen(a, depth)
        if kind==11: return self.least(a, self.float(depth-1))
        which = self.below(4)
        if which==0: return made(f'abs({a.text})', ATOM, a.type, 0, max(-a.lo,a.hi), a.q)
        if which==1: return E(f'-{inside(a, ATOM)}', UNARY, a.type, -a.hi, -a.lo, a.q)
        if which==2: return binary('**', a, number(2))
        return self.called(False) or made(f'np.float32({a.text})', ATOM, 'float32', a.lo, a.hi, a.q)

    def bool(self, depth=1):
        "A condition"
        kind = self.below(10)
        if kind < 5 or not depth: return self.comparison(depth)
        if kind==9:
            return E(f'{inside(self.signed(self.int(depth)), COMPARE+1)} '
                     f'{self.pick(["in","not in"])} {self.pick([(1,2,3),(0,-4),(7,)])}', COMPARE, 'bool', 0, 1, 0)
        if kind==5 and self.bools(): return self.pick(self.bools())
        if kind==6: return E(f'not {inside(self.bool(depth-1), NOT)}', NOT, 'bool', 0, 1, 0)
        word,prec = self.pick([('and',BOTH),('or',EITHER)])
        return E(f'{inside(self.bool(depth-1), prec)} {word} {inside(self.bool(depth-1), prec+1)}', prec,
                 'bool', 0, 1, 0)

    def comparison(self, depth):
        get = self.float if self.floats() and self.rarely(2) else self.int
        a,b = get(depth),get(depth)
        ops = ['<','==','>=','>','!=','<=']
        text = f'{inside(a, COMPARE+1)} {self.pick(ops)} {inside(b, COMPARE+1)}'
        if self.rarely(3): text += f' {self.pick(ops)} {inside(get(depth), COMPARE+1)}'
        return E(text, COMPARE, 'bool', 0, 1, 0)

    # device functions

    def called(self, is_integer):
        "A call of a device function that takes two small integers and returns one"
        if not self.kernel: return None
        kinds = [d for d in self.devices if d[1]==is_integer]
        if not kinds and len(self.devices) < 2 and self.rarely(1): kinds = [self.device(is_integer)]
        if not kinds: return None
        name,_,res = self.pick(kinds)
        if is_integer: args = [self.small(50) for _ in range(2)]
        else:
            args = [self.pick([e for e in (*self.floats(), number(0.5))
                               if e.type=='float64' and max(-e.lo,e.hi) <= 8 and e.q >= -3]) for _ in range(2)]
        return E(f'{name}({args[0].text}, {args[1].text})', ATOM, *res[2:])

    def device(self, is_integer):
        "Write a device function; (name, does it give integers, what it gives)"
        w = Writer(self.draw)
        w.kernel,w.names = False,100*(len(self.devices)+1)
        name = f'{"mixed" if is_integer else "blend"}{len(self.devices)+1}'
        w.fixed = ([E('a', ATOM, 'int64', 0, 49, 0), E('b', ATOM, 'int64', 0, 49, 0)] if is_integer
                   else [E('a', ATOM, 'float64', -8, 8, -3), E('b', ATOM, 'float64', -8, 8, -3)])
        get = (lambda: w.signed(w.int(2))) if is_integer else (lambda: w.double(w.float(2)))
        if w.rarely(1): w.statement()
        outs = []
        if w.rarely(1):
            outs.append(get())
            w.line(f'if {w.bool(1).text}: return {outs[-1].text}')
        outs.append(get())
        w.line(f'return {outs[-1].text}')
        self.head += ['@cuda.jit(device=True)', f'def {name}(a, b):', *w.lines, '']
        res = made(name, ATOM, 'int64' if is_integer else 'float64', min(o.lo for o in outs), max(o.hi for o in outs),
                   min(o.q for o in outs))
        if res is None: res = E(name, ATOM, 'int64', -2**61, 2**61, 0) if is_integer else None
        if res is None:
            self.head = self.head[:-len(w.lines)-3]
            return name,is_integer,number(0.5)
        self.devices.append((name, is_integer, res))
        return self.devices[-1]

    def double(self, e):
        return e if e.type=='float64' else E(f'float({e.text}) * 1.0', TIMES, 'float64', e.lo, e.hi, e.q)

    # statements

    def statement(self, nest=2):
        kind = self.below(16)
        if kind==14: self.part()
        elif kind==15: self.two_results()
        elif kind < 2: self.new_fixed()
        elif kind < 4: self.new_var()
        elif kind < 7: self.change()
        elif kind==7: self.swap()
        elif nest==0: self.change()
        elif kind < 10: self.branch(nest)
        elif kind < 12: self.for_loop(nest)
        elif kind==12: self.while_loop(nest)
        else: self.choose_in_branches()

    def body(self, nest, most=2):
        "An indented block"
        self.depth += 1
        fixed,vars,arrays = list(self.fixed),dict(self.vars),list(self.arrays)
        n = len(self.lines)
        for _ in range(1+self.below(most)): self.statement(nest)
        if len(self.lines)==n: self.line('pass')
        self.fixed,self.vars,self.arrays = fixed,vars,arrays
        self.depth -= 1

    def two_results(self):
        "A device function that returns a tuple"
        if not self.kernel: return self.new_fixed()
        if not any('def both(' in l for l in self.head):
            self.head += ['@cuda.jit(device=True)', 'def both(a, b):',
                          f'    return {self.pick(["b, a - b","a // 3, a * b % 7","a ^ b, a"])}', '']
        names = self.fresh('q'),self.fresh('q')
        self.line(f'{names[0]}, {names[1]} = both({self.small(50).text}, {self.small(20).text})')
        self.fixed += [E(n, ATOM, 'int64', -50, 64, 0) for n in names]

    def new_fixed(self):
        e = self.pick([self.int, self.float, self.bool])()
        name = self.fresh({'b':'c','f':'v'}.get(e.type[0], 'k'))
        self.line(f'{name} = {e.text}')
        self.fixed.append(e._replace(text=name, prec=ATOM))

    def new_var(self):
        if self.rarely(1):
            name = self.fresh('n')
            self.line(f'{name} = {self.narrow(self.int(1)).text}')
            self.vars[name] = E(name, ATOM, 'int64', -WORD, WORD-1, 0)
        elif self.rarely(1):
            name = self.fresh('total')
            if self.rarely(1):
                self.line(f'{name} = 0')
                self.vars[name],self.sums[name] = E(name, ATOM, 'int64', -2**36, 2**36, 0),256
            else:
                self.line(f'{name} = {self.pick(["0.0","np.float32(0)"])}')
                self.vars[name],self.sums[name] = E(name, ATOM, 'float64', -2**14, 2**14, -8),256
        else:
            name = self.fresh('c')
            self.line(f'{name} = {self.bool().text}')
            self.vars[name] = E(name, ATOM, 'bool', 0, 1, 0)

    def narrow(self, e):
        "`e` as an int64 below WORD"
        e = self.signed(e)
        if -WORD <= e.lo and e.hi < WORD: return e
        return binary(*self.pick([('%', e, number(1009)), ('&', e, number(4095)), ('%', e, number(-77))]))

    def addend(self, v):
        if whole(v.type):
            e = self.narrow(self.int(2))
            return e
        for _ in range(3):
            e = self.float(2)
            if max(-e.lo,e.hi) <= 64 and e.q >= -8: return e
        return self.float_literal()

    def change(self):
        free = [n for n in self.vars if n not in self.locked]
        if not free: return self.new_var()
        name = self.pick(free)
        v = self.vars[name]
        if name in self.sums:
            if self.sums[name] < self.trips: return
            self.sums[name] -= self.trips
            return self.line(f'{name} {self.pick(["+=","-="])} {self.addend(v).text}')
        if v.type=='bool': return self.line(f'{name} = {self.bool().text}')
        kind = self.below(4)
        if kind==0: self.line(f'{name} = {self.narrow(self.int(2)).text}')
        elif kind==1: self.line(f'{name} ^= {inside(binary("&", self.signed(self.int(1)), number(1023)), XOR+1)}')
        elif kind==2: self.line(f'{name} {self.pick(["//=","%="])} {self.divisor(1).text}')
        else:
            self.line(f'{name} = ({name} * {self.pick([3,5,-7])} + {inside(self.narrow(self.int(1)), PLUS+1)}) % '
                      f'{self.pick([1009,251,-101])}')

    def swap(self):
        free = [n for n,v in self.vars.items() if n not in self.locked and n not in self.sums and v.type=='int64']
        if len(free) < 2: return self.change()
        a = self.pick(free)
        b = self.pick([n for n in free if n!=a])
        self.line(f'{a}, {b} = {b}, '
                  f'{self.pick([number(1), self.vars[a], self.narrow(binary("+", self.vars[a], self.vars[b]))]).text}')

    def branch(self, nest):
        self.line(f'if {self.bool().text}:')
        self.body(nest-1)
        if self.rarely(3):
            self.line(f'elif {self.bool().text}:')
            self.body(nest-1)
        if self.rarely(1):
            self.line('else:')
            self.body(nest-1)

    def choose_in_branches(self):
        "A variable that both branches give its first value"
        get,what,join = self.pick([(lambda: self.narrow(self.int(1)),'k',None),
                                   (lambda: self.double(self.float(1)),'v',None)])
        name,c,a,b = self.fresh(what),self.bool(),get(),get()
        for text in (f'if {c.text}:', f'    {name} = {a.text}', 'else:', f'    {name} = {b.text}'): self.line(text)
        self.fixed.append(E(name, ATOM, a.type, min(a.lo,b.lo), max(a.hi,b.hi), min(a.q,b.q)))

    def leave(self):
        "In a loop: sometimes a way out"
        if self.rarely(2): self.line(f'if {self.bool().text}: {self.pick(["break","continue"])}')

    def loop(self, head, most, var, nest, first=None, locked=()):
        fixed,trips = list(self.fixed),self.trips
        self.line(head)
        self.trips *= most
        self.locked |= set(locked)
        if var: self.fixed.append(var)
        self.depth += 1
        for text in first or (): self.line(text)
        self.leave()
        self.depth -= 1
        self.body(nest-1)
        if self.rarely(3):
            self.depth += 1
            self.leave()
            self.depth -= 1
        self.locked -= set(locked)
        self.fixed,self.trips = fixed,trips

    def for_loop(self, nest):
        if self.trips >= 16: return self.change()
        j,kind = self.fresh('j'),self.below(5)
        def var(lo, hi): return E(j, ATOM, 'int64', lo, hi, 0)
        if kind==0:
            self.loop(f'for {j} in range({(n := self.pick([3,5,1]))}):', n, var(0, n-1), nest)
            if self.rarely(1): self.fixed.append(var(0, n-1))        # what it holds afterwards
        elif kind==1: self.loop(f'for {j} in range({self.small(6).text}):', 5, var(0, 4), nest)
        elif kind==2:
            hi,lo,step = self.pick([(6,-3,-2),(4,0,-1),(-2,-7,-3)])
            self.loop(f'for {j} in range({hi}, {lo}, {step}):', len(range(hi,lo,step)), var(lo+1, hi), nest)
        elif kind==3:
            a,k = self.small(7),self.pick([2,3])
            self.loop(f'for {j} in range({a.text}, {self.pick(["12","10"])}, {k}):', 6, var(0, 11), nest)
        else: self.loop(f'for {j} in {self.pick([(1,5,7),(2,-3),(4,)])}:', 3, var(-3, 7), nest)

    def while_loop(self, nest):
        if self.trips >= 16: return self.change()
        kind = self.below(3)
        n = self.fresh('w')
        if kind==0:
            self.line(f'{n} = {self.small(100).text}')
            self.fixed.append(E(n, ATOM, 'int64', -1, 99, 0))
            self.loop(f'while {n} > 0:', 7, None, nest, [f'{n} {self.pick(["//= 2","-= 20",">>= 1"])}'])
        elif kind==1:
            self.line(f'{n} = 0')
            self.fixed.append(E(n, ATOM, 'int64', 0, 5, 0))
            self.loop('while True:', 5, None, nest, [f'{n} += 1', f'if {n} > {self.pick([4,2])}: break'])
        else:
            self.line(f'{n} = {self.pick(["5","-1"])}')
            self.fixed.append(E(n, ATOM, 'int64', -20, 12, 0))
            self.loop(f'while {n} < 9 and {self.bool(0).text}:', 10, None, nest, [f'{n} += {self.pick([1,3])}'])

    # kernels

    def new_array(self, type, shape, owned=False, how=None, name=None):
        name = name or ('out' if owned and not any(a.owned for a in self.arrays)
                        else self.fresh('xyzmuh'[self.below(3)]))
        how = how or self.pick(['C','C','strided','padded','F','reversed'])
        lo,hi,q = ((0,1,0) if type=='bool' else (-24,24,-2) if type=='float16' else (-40,40,-3) if not whole(type)
                   else (max(-100, bounds(type)[0]), 100, 0) if not self.rarely(3) else (*bounds(type), 0))
        if type=='int64' or type=='uint64': lo,hi = max(lo, -10**6),min(hi, 10**6)
        self.params.append(name)
        self.args.append(array(type, shape, how, [0,0,0,0] if owned else [len(self.args)+1, lo, hi, q]))
        a = Array(name, shape, type, lo*2.**q if q else lo, hi*2.**q if q else hi, q, owned)
        self.arrays.append(a)
        return a

    def scalar(self):
        type,v = self.pick([('int',5),('float',0.5),('int32',-3),('float32',1.5),('int',2**33+1),
                            ('bool_',True),('uint8',200)])
        name = self.fresh('a')
        self.params.append(name)
        self.args.append(dict(number=type, value=v))
        t = {'int':'int64','float':'float64','bool_':'bool'}.get(type, type)
        self.fixed.append(number(v)._replace(text=name, prec=ATOM, type=t) if t!='bool'
                          else E(name, ATOM, 'bool', 0, 1, 0))

    def pair(self):
        "A tuple as an argument"
        name,values = self.fresh('p'),self.pick([(4,-3),(2,9,5),(0.5,-1.5)])
        self.params.append(name)
        self.args.append(dict(tuple=[dict(number=type(v).__name__, value=v) for v in values]))
        self.fixed += [number(v)._replace(text=f'{name}[{n}]', prec=ATOM) for n,v in enumerate(values)]

    def constant(self):
        name,v = self.pick([('STEP',3),('SCALE',0.25),('BIG',2**34),('NEGATIVE',-6)])
        if name in self.closed or f'{name} = {v}' in self.head: return
        if self.rarely(1): self.closed[name] = v               # of a function around the kernel
        else: self.head.insert(0, f'{name} = {v}')
        self.fixed.append(number(v)._replace(text=name, prec=ATOM))

    def inputs(self, shape):
        types = [*INTS,'float32','float64','float16']
        for _ in range(1+self.below(3)):
            self.new_array(self.pick(types), shape if self.rarely(1) else self.pick([(13,),(5,7),(2,3,4)]))
        for _ in range(self.below(3)): self.scalar()
        if self.rarely(4): self.pair()
        if self.rarely(2): self.constant()

    def own(self, at):
        "The elements that this thread may read without a thought: inputs of the same shape as the index"
        for a in self.arrays:
            if (not a.owned and a.type!='bool' and len(a.shape)==len(at[1])
                and all(n >= k for n,k in zip(a.shape, at[1]))):
                self.fixed.append(self.loaded(a, at[0]))

    def stored(self, a):
        "An expression that can be stored to the array"
        if a.type=='bool': return self.bool(2)
        if whole(a.type): return self.int(3)
        for _ in range(4):
            e = self.float(3)
            if a.type!='float16' or max(-e.lo,e.hi) < 2.**(11+e.q): return e
        return number(0.5)

    def store(self, a, at):
        e = self.stored(a)
        if not a.type=='bool' and a.type!='float16' and self.rarely(4):
            if whole(a.type)==whole(e.type): return self.line(f'{a.name}[{at}] {self.pick(["+=","="])} {e.text}')
        self.line(f'{a.name}[{at}] = {e.text}')

    def statements(self, most, nest=2):
        for _ in range(self.below(most+1)): self.statement(nest)

    def finish(self, name, grid, block, shared=0):
        text = ['@cuda.jit', f'def {name}({", ".join(self.params)}):', *self.lines]
        if self.closed:
            text = [f'def make({", ".join(self.closed)}):', *('    '+l for l in text), f'    return {name}',
                    f'{name} = make({", ".join(map(repr, self.closed.values()))})']
        return Case(name, '\n'.join([*self.head, *text, '']), self.args, list(grid), list(block), shared, 'bits')


def outputs(w, shape):
    types = ['int64','float32','int32','float64','bool','uint8','int16','float16','uint32','uint64','int8','uint16']
    return [w.new_array(w.pick(types), shape, True, name=('out','out2')[k]) for k in range(1+w.below(2))]

def elementwise(w, name):
    "One thread, one element, along one axis"
    n = w.pick([37,64,5])
    w.inputs((n,))
    outs = outputs(w, (n,))
    w.line('i = cuda.grid(1)')
    if w.rarely(1):
        w.line('if i >= out.size: return')
    else:
        w.line('if i < out.size:')
        w.depth += 1
    w.fixed += [E('i', ATOM, 'int64', 0, n-1, 0), E('cuda.threadIdx.x', ATOM, 'int64', 0, 15, 0)]
    w.own(('i', (n,)))
    w.statements(4)
    if w.rarely(3) and w.depth==1: w.line(f'if {w.bool().text}: return')
    for o in outs: w.store(o, 'i')
    return w.finish(name, [-(-n//16)], [16])

def strided(w, name):
    "A grid-stride loop"
    n = w.pick([50,33])
    w.inputs((n,))
    outs = outputs(w, (n,))
    w.line(f'for i in range(cuda.grid(1), {w.pick(["out.size","out.shape[0]","len(out)"])}, cuda.gridsize(1)):')
    w.depth += 1
    w.fixed += [E('i', ATOM, 'int64', 0, n-1, 0), E('cuda.blockIdx.x', ATOM, 'int64', 0, 1, 0)]
    w.own(('i', (n,)))
    w.statements(3)
    for o in outs: w.store(o, 'i')
    return w.finish(name, [2], [8])

def planar(w, name):
    "Two axes, rows along y"
    h,wd = w.pick([(5,7),(8,8),(1,9)])
    w.inputs((h,wd))
    outs = outputs(w, (h,wd))
    w.line(w.pick(['c, r = cuda.grid(2)','r, c = cuda.blockIdx.y*cuda.blockDim.y + cuda.threadIdx.y, '
                                         'cuda.blockIdx.x*cuda.blockDim.x + cuda.threadIdx.x']))
    if w.rarely(1):
        w.line('h, w = out.shape')
        guard = 'r < h and c < w'
        w.fixed += [E('h', ATOM, 'int64', h, h, 0), E('w', ATOM, 'int64', wd, wd, 0)]
    else: guard = 'r < out.shape[0] and c < out.shape[1]'
    w.line(f'if {guard}:')
    w.depth += 1
    w.fixed += [E('r', ATOM, 'int64', 0, h-1, 0), E('c', ATOM, 'int64', 0, wd-1, 0)]
    w.own(('r, c', (h,wd)))
    w.statements(3)
    for o in outs: w.store(o, 'r, c')
    return w.finish(name, [3,3], [4,3])

def spatial(w, name):
    "Three axes"
    shape = (3,4,5)
    w.inputs(shape)
    outs = outputs(w, shape)
    w.line('i, j, k = cuda.grid(3)')
    w.line('if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:')
    w.depth += 1
    w.fixed += [E(v, ATOM, 'int64', 0, n-1, 0) for v,n in zip('ijk', shape)]
    w.own(('i, j, k', shape))
    w.statements(2)
    for o in outs: w.store(o, 'i, j, k')
    return w.finish(name, [2,2,3], [2,3,2])

def local(w, name):
    "A local array"
    n = 24
    w.inputs((n,))
    outs = outputs(w, (n,))
    t = w.pick(['int64','float32','int32','uint8'])
    w.line(f'a = cuda.local.array(5, np.{t})')
    w.line('i = cuda.grid(1)')
    w.fixed += [E('i', ATOM, 'int64', 0, n-1, 0)]
    w.own(('i', (n,)))
    w.line('for j in range(5):')
    w.depth += 1
    w.fixed.append(E('j', ATOM, 'int64', 0, 4, 0))
    e = w.addend(E('', ATOM, t, 0, 0, 0))
    w.line(f'a[j] = {e.text}')
    w.depth -= 1
    w.fixed.pop()
    lo,hi = (e.lo,e.hi) if not whole(t) or bounds(t)[0] <= e.lo and e.hi <= bounds(t)[1] else bounds(t)
    for _ in range(2): w.fixed.append(E(f'a[{w.small(5).text}]', ATOM, t, lo, hi, e.q))
    w.statements(3)
    for o in outs: w.store(o, 'i')
    return w.finish(name, [2], [12])

def shared(w, name):
    "Tiles in shared memory, with barriers between"
    block = w.pick([16,32,8])
    n = 3*block
    w.inputs((n,))
    outs = outputs(w, (n,))
    t = w.pick(['int64','float32','int32','float64','uint16'])
    padded = w.rarely(2)
    if w.rarely(1):
        w.head.insert(0, f'TPB = {block}')
        size = 'TPB'
    else: size = str(block)
    dynamic = w.rarely(3)
    bytes = np.dtype(t).itemsize*block
    w.line(f's = cuda.shared.array(0, np.{t})' if dynamic else f's = cuda.shared.array(({size}, 2), np.{t})' if padded
           else f's = cuda.shared.array({size}, np.{t})')
    padded = padded and not dynamic
    def at(i): return f's[{i}, {w.below(1)}]' if padded else f's[{i}]'
    w.line('t, i = cuda.threadIdx.x, cuda.grid(1)')
    w.fixed += [E('t', ATOM, 'int64', 0, block-1, 0), E('i', ATOM, 'int64', 0, n-1, 0)]
    w.own(('i', (n,)))
    w.statements(1)
    rounds = 1+w.below(2)
    for k in range(rounds):
        e = w.addend(E('', ATOM, t, 0, 0, 0))
        w.line(f'{at("t")} = {e.text}')
        w.line('cuda.syncthreads()')
        lo,hi = (e.lo,e.hi) if not whole(t) or bounds(t)[0] <= e.lo and e.hi <= bounds(t)[1] else bounds(t)
        if w.rarely(2) and hi < 2**31 and lo >= 0 and t in ('int64','float32','float64') and hi*block < 2.**(BITS+e.q):
            for text in (f'half = {block//2}', 'while half > 0:', f'    if t < half: {at("t")} += {at("t + half")}',
                         '    cuda.syncthreads()', '    half //= 2'):
                w.line(text)
            lo,hi = lo,hi*block
        v = w.fresh('s')
        w.line(f'{v} = {at(w.pick([f"{block-1} - t", f"(t + {w.pick([1,3,5])}) % {size}", "0", f"t ^ 1"]))}')
        w.fixed.append(E(v, ATOM, t, lo, hi, e.q))
        if k+1 < rounds: w.line('cuda.syncthreads()')
    w.statements(1)
    for o in outs: w.store(o, 'i')
    return w.finish(name, [3], [block], bytes if dynamic else 0)

def warps(w, name):
    "Shuffles and votes of whole warps"
    n = 64
    w.inputs((n,))
    outs = outputs(w, (n,))
    w.line('i = cuda.grid(1)')
    w.fixed += [E('i', ATOM, 'int64', 0, n-1, 0), E('cuda.laneid', ATOM, 'int64', 0, 31, 0)]
    w.own(('i', (n,)))
    w.statements(1)
    for _ in range(1+w.below(2)):
        kind = w.below(3)
        if kind < 2:
            e = w.narrow(w.int(2)) if kind==0 else w.double(w.float(2))
            v,op = w.fresh('v'),w.pick(['down','up','xor',''])
            w.line(f'{v} = {e.text}')
            if op in ('down','xor') and w.rarely(1) and e.lo >= 0 and e.hi*32 < 2.**(BITS+e.q):
                for text in ('d = 16', 'while d > 0:',
                             f'    {v} += cuda.shfl_{op}_sync(0xffffffff, {v}, d)', '    d >>= 1'):
                    w.line(text)
                e = e._replace(hi=e.hi*32)
            else: w.line(f'{v} = cuda.shfl_{op+"_" if op else ""}sync(0xffffffff, {v}, {w.pick(["1","5","16","31"])})')
            w.fixed.append(e._replace(text=v, prec=ATOM))
        else:
            v,which = w.fresh('b'),w.pick(['any','all','ballot'])
            c = f'cuda.{which}_sync(0xffffffff, {w.bool().text})'
            w.line(f'{v} = ' + (f'cuda.popc({c})' if which=='ballot' else f'1 if {c} else 0'))
            w.fixed.append(E(v, ATOM, 'int64', 0, 32, 0))
    w.statements(1)
    for o in outs: w.store(o, 'i')
    return w.finish(name, [2], [32])

def atomic(w, name):
    "Atomic operations that commute"
    n = 40
    w.inputs((n,))
    t = w.pick(['int32','int64','uint32','uint64','float32','float64'])
    op = w.pick(['add','max','min','sub','and_','or_','xor'] if whole(t) else ['add'])
    tally = w.new_array(t, w.pick([(7,),(1,),(3,4)]), True, 'C', name='tally')
    if op in ('min','and_'): w.args[-1]['fill'] = [1, 500, 1000, 0]
    block = w.rarely(2) and len(tally.shape)==1 and whole(t) and op=='add'
    where = tally.name
    if block:
        for text in (f's = cuda.shared.array({tally.shape[0]}, np.{t})',
                     f'if cuda.threadIdx.x < {tally.shape[0]}: s[cuda.threadIdx.x] = 0', 'cuda.syncthreads()'):
            w.line(text)
        where = 's'
    w.line('i = cuda.grid(1)')
    w.line(f'if i < {n}:')
    w.depth += 1
    w.fixed += [E('i', ATOM, 'int64', 0, n-1, 0)]
    w.own(('i', (n,)))
    w.statements(2)
    at = ', '.join(w.index(k, str(k)) for k in tally.shape)
    e = w.narrow(w.int(2)) if whole(t) else w.addend(E('', ATOM, t, 0, 0, 0))
    if unsigned(t) and op in ('max','min'): e = binary('&', e, number(1023))
    w.line(f'cuda.atomic.{op}({where}, {at if len(tally.shape)==1 else f"({at})"}, {e.text})')
    w.depth = 1
    if block:
        w.line('cuda.syncthreads()')
        w.line(f'if cuda.threadIdx.x < {tally.shape[0]}: cuda.atomic.add(tally, cuda.threadIdx.x, s[cuda.threadIdx.x])')
    return w.finish(name, [3], [16])

def rough(w, name):
    "Floats that are rounded: functions, division, the operations of positive values"
    t = w.pick(['float32','float64'])
    n = 32
    for k in range(2): w.new_array(t, (n,), name='xy'[k], how='C')
    for a in w.args: a['fill'] = [a['fill'][0], 2**20//2, 2**22, -20]
    w.new_array(t, (n,), True, 'C', name='out')
    w.line('i = cuda.grid(1)')
    w.line('a, b = x[i], y[i]')
    def leaf(): return w.pick(['a','b'])
    def term(depth):
        "(text, can it be larger than 4?)"
        kind = w.below(8) if depth else 0
        if kind < 1: return leaf(),False
        p,big = term(depth-1)
        if kind < 3: return f'({p} {w.pick(["+","*"])} {term(depth-1)[0]})',True
        if kind < 5: return f'{p} / {leaf()}',True
        f = w.pick(['sqrt'] if big else ['sqrt','exp','log1p','atan','tanh','cbrt'])
        return (f'cuda.cbrt({p})' if f=='cbrt' else f'math.{f}({p})'),f=='exp' or big
    w.line(f'out[i] = {term(3)[0]}')
    return w.finish(name, [1], [n])._replace(compare='ulps')

SHAPES = [elementwise, strided, planar, spatial, local, shared, warps, atomic, rough]

@st.composite
def kernels(draw, name='k'):
    "A case whose kernel is random"
    w = Writer(draw)
    return w.pick(SHAPES)(w, name)
