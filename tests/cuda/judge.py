"""Run the programs here on a GPU, and compute-sanitizer over the wrong and the right ones: what
came out goes to h100.json.

    python judge.py [--out FILE] [--raw FILE] [--arch sm_90] [-j 16]
    python judge.py --compile-only     # needs nvcc, and no GPU
"""
import argparse, hashlib, json, os, re, shutil, signal, subprocess, sys, tempfile, time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = 'memcheck','racecheck','initcheck','synccheck'
SECONDS = 20  # wrong programs may deadlock
RUNS = 3      # of each program that is right: all must print the same

def programs(names=()):
    "The programs, the right ones first, so that one that hangs delays none of them"
    found = sorted(HERE.glob('*/[0-9]*.cu'), key=lambda p: (p.parent.name=='wrong', str(p)))
    return [p for p in found if not names or any(n in str(p) for n in names)]

def key(src): return f'{src.parent.name}/{src.name}'
def sanitized(src): return src.parent.name in ('wrong','right')

# A preprocessor line with those that continue it | strings, numbers, words, brackets, operators | what means nothing
TOKEN = re.compile(r"""
    (?P<line>^[ \t]*\#(?:\\\n|.)*)
  | (?P<token> (?:u8|[uUL])?(?:R"(?P<fence>[^(\s]*)\((?s:.*?)\)(?P=fence)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+')
             | \.?\d(?:'?[\w.])* | \w+ | [][(){},;] | (?:(?!//|/\*)[^\s\w"'#[\](){},;])+ | \# )
  | \s | //.* | /\*(?s:.*?)\*/""", re.X | re.M)

def flags(text):
    "The options for nvcc that a program's first line names"
    said = re.match(r'// flags: (.*)', text)
    return said[1].split() if said else []

def digest(text):
    """The sha256 of what a program says, so that its layout may change and its record remain: of its flags and its
    tokens, without comments, without the white space between them, and with a string or a preprocessor line whole that
    is written in pieces. (What a record says of lines is held by the line that the program itself expects.)"""
    assert not TOKEN.sub('', text)
    tokens = [re.sub(r'\s*\\\n\s*', ' ', m['line']).strip() if m['line'] else m['token'].replace('\n', r'\n')
              for m in TOKEN.finditer(text) if m.lastgroup]
    return hashlib.sha256(re.sub('"\n"', '', '\n'.join(flags(text) + tokens)).encode()).hexdigest()

def finish(cmd, seconds=None):
    "Its exit status, None after a time-out, and both outputs; with it end the processes that it started"
    p = subprocess.Popen([str(o) for o in cmd], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         errors='replace', start_new_session=True)
    try: out,err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        return None, *p.communicate()
    return p.returncode, out, err

def compiled(src, folder, arch):
    "The program for `src`, or None; and what nvcc said"
    options = flags(src.read_text())
    if not any('arch=' in o for o in options): options.append(f'-arch={arch}')
    exe = folder/key(src).replace('/','_').replace('.cu','')
    cmd = ['nvcc','-std=c++17', *options, *(['-lineinfo'] if sanitized(src) else []), '-o',exe,src]
    rc,out,err = finish(cmd)
    return (exe if rc==0 else None), out+err

def ran(src, exe):
    "What it printed and its exit status"
    times = [finish([exe], SECONDS) for _ in range(1 if src.parent.name=='wrong' else RUNS)]
    rc,out,_ = times[0]
    return dict(stdout=out, rc=rc, stable=all(t[:2]==(rc,out) for t in times))

def records(text):
    "compute-sanitizer's findings: each a heading and the lines under it"
    skip = re.compile(r'COMPUTE-SANITIZER|\w+ SUMMARY|Target application|Error: (?!Race|Potential)|Warning: '
                      r'(?!Race|Potential)|No attachable|\s*$')
    found = []
    for line in re.findall(r'^========= ?(.*)', text, re.M):
        if re.match(r'\s+\S', line):
            if found: found[-1].append(line)
        elif not skip.match(line): found.append([line])
    return found

def kind(heading):
    "A finding's heading without positions, addresses and values"
    heading = re.sub(r'^(Error|Warning|Info): ', '', heading)
    return re.sub(r' at .*| on CUDA API call.*| due to ".*|0x[0-9a-f]+', '', heading).strip()

def findings(text, name):
    "The number of errors, the source lines in them, and their kinds, of what compute-sanitizer printed about `name`"
    found = records(text)
    lines = {int(n) for rec in found for l in rec if 'Host Frame' not in l
             for n in re.findall(rf'{re.escape(name)}:(\d+)', l)}
    summary = re.findall(r'SUMMARY: (\d+) (?:error|hazard)', text)
    return dict(errors=int(summary[-1]) if summary else len(found), lines=sorted(lines),
                kinds=sorted({kind(rec[0]) for rec in found}))

def checked(src, exe, tool):
    "What one of the sanitizer's tools finds, and all it printed"
    rc,out,err = finish(['compute-sanitizer','--tool',tool,'--print-limit',1000,exe], SECONDS)
    return findings(out+err, src.name) | (dict(timeout=True) if rc is None else {}), out+err

def expected(src):
    "The kind and the lines that a wrong program's first line names"
    m = re.match(r'// expect: (\w+) line ([\d or]+)', src.read_text())
    return m[1], [int(n) for n in re.findall(r'\d+', m[2])]

def remark(src, got):
    "What is unexpected about a program's results, or an empty string"
    if src.parent.name!='wrong':
        bad = [t for t,f in got.get('sanitizer',{}).items() if f['errors']]
        return '; '.join(o for o in (f"exit status {got['rc']}" if got['rc'] else '', '' if got['stable']
                                     else 'not stable', f"accused by {', '.join(bad)}" if bad else '') if o)
    tool,lines = expected(src)
    seen = got['sanitizer'][tool]
    if not seen['errors']: return f'{tool} finds nothing'
    return '' if set(lines)&set(seen['lines']) else f"{tool} names line {seen['lines']}, not {lines}"

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('names', nargs='*',
                   help='parts of the names of programs, of which alone the record is renewed; all by default')
    p.add_argument('--out', type=Path, default=HERE/'h100.json')
    p.add_argument('--raw', type=Path, help="where to write all that compute-sanitizer printed")
    p.add_argument('--arch', default='sm_90')
    p.add_argument('--compile-only', action='store_true', help='write nothing')
    p.add_argument('-j', type=int, default=os.cpu_count(), help='programs at a time')
    a = p.parse_args()
    for need in ['nvcc'] + ([] if a.compile_only else ['compute-sanitizer']):
        if not shutil.which(need): sys.exit(f'{need} is not on the PATH')
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.j) as pool: return judge(a, Path(folder), pool)

def judge(a, folder, pool):
    "Compile, run, check, write; the number of programs that nvcc refuses or warns about"
    start,srcs,raw = time.time(),programs(a.names),{}
    exes = dict(zip(srcs, pool.map(lambda s: compiled(s, folder, a.arch), srcs)))
    said = {s: text for s,(exe,text) in exes.items() if text or not exe}
    for s,text in said.items(): print(f'{key(s)}: nvcc says\n{text}')
    print(f"{len(srcs)} programs compiled in {time.time()-start:.0f} s, {len(said)} with remarks: "
          f"{dict(Counter(s.parent.name for s in srcs))}")
    if a.compile_only: return len(said)
    exes = {s: exe for s,(exe,_) in exes.items() if exe}
    result = {s: dict(sha256=digest(s.read_text())) | got
              for s,got in zip(exes, pool.map(ran, exes, exes.values()))}
    jobs = [(s,t) for s in exes if sanitized(s) for t in TOOLS]
    for (s,t),(got,text) in zip(jobs, pool.map(lambda j: checked(j[0], exes[j[0]], j[1]), jobs)):
        result[s].setdefault('sanitizer', {})[t] = got
        raw[f'{key(s)} {t}'] = text
    for s,got in result.items():
        if why := remark(s, got): print(f'{key(s)}: {why}')
    known = json.loads(a.out.read_text()) if a.names and a.out.exists() else {}
    known |= {key(s): got for s,got in result.items()}
    a.out.write_text(json.dumps(dict(sorted(known.items())), indent=1) + '\n')
    if a.raw: a.raw.write_text(json.dumps(raw, indent=1) + '\n')
    print(f'{len(result)} programs and {len(jobs)} checks in {time.time()-start:.0f} s: {a.out}')
    return len(said)

if __name__=='__main__': sys.exit(main())
