"The site in Chromium and in Firefox: its consoles, its pictures, the keyboard, and axe-core's rules, light and dark."
import importlib.resources, json, shutil, subprocess, time
from contextlib import contextmanager, nullcontext
from itertools import count

import pytest
import test_site
import websocket
from browsers import chromium
from exhaustive import mark_exhaustive
from test_site import EVERY, HERE_ALONE, NOT_SHOWN, SOME, TOO_WIDE, films, is_here, page_of, to_visit, todays_theme

pytestmark = todays_theme

site, address = test_site.site, test_site.address  # fixtures
FIREFOX = next(filter(None, map(shutil.which, ('firefox-esr', 'firefox'))), None)


# Two browsers of one interface: `go`, `js`, `press`, and `films`, which are answered here; `asked` has the addresses of
# others, `errors` what went wrong

class Chromium:
    "A page of Chromium"
    def __init__(self, page): self.page, self.asked, self.errors, self.js = page, page.asked, page.errors, page.evaluate

    def go(self, url): self.page.goto(url)
    def press(self, key): self.page.keyboard.press(key)
    def films(self): return films(self.page)


KEYS = dict(Tab='\ue004', Enter='\ue007')
EVENTS = ['log.entryAdded', 'network.beforeRequestSent']
FILM = dict(type='string', value='<p>a film</p>')
# Nothing leaves this machine: all but its own addresses are redirected to a closed port.
SETTINGS = {'network.proxy.type': 1, 'network.proxy.http': '127.0.0.1', 'network.proxy.http_port': 9,
            'network.proxy.ssl': '127.0.0.1', 'network.proxy.ssl_port': 9,
            'datareporting.policy.dataSubmissionEnabled': False, 'remote.active-protocols': 1}


class Firefox:
    "A tab of Firefox, controlled by WebDriver BiDi: Debian's Firefox has no other protocol of Playwright's"
    def __init__(self, socket):
        self.socket, self.asked, self.errors, self.numbers = socket, [], [], count(1)
        self.ask('session.new', capabilities={})
        self.ask('session.subscribe', events=EVENTS)
        self.ask('network.addIntercept', phases=['beforeRequestSent'],
                 urlPatterns=[dict(type='pattern', protocol='https')])
        self.open()

    def open(self):
        "Go on in a new tab"
        self.tab = self.ask('browsingContext.create', type='tab')['context']
        self.ask('browsingContext.setViewport', context=self.tab, viewport=dict(width=1400, height=900))

    def ask(self, method, **params):
        "Send a command; its result. What happens meanwhile is noted"
        number = self.send(method, **params)
        while (said := json.loads(self.socket.recv())).get('id') != number: self.note(**said)
        assert said['type'] == 'success', said
        return said['result']

    def send(self, method, **params):
        "Send a command; its number"
        number = next(self.numbers)
        self.socket.send(json.dumps(dict(id=number, method=method, params=params)))
        return number

    def note(self, params=None, **_):
        "Keep an error of the page, or an address of others that it asks, which is answered here"
        if not params: return  # what `send` did
        if params.get('level') == 'error': self.errors.append(params['text'])
        request = params.get('request', dict(url='about:'))
        if not is_here(request['url']): self.asked.append(request['url'])
        if params.get('isBlocked'): self.send('network.provideResponse', request=request['request'], body=FILM)

    def go(self, url):
        "To a page that has the focus, which Firefox gives to its address bar now and then"
        for _ in range(20):
            self.ask('browsingContext.navigate', context=self.tab, url=url, wait='complete')
            if self.js('() => document.hasFocus()'): return
            self.open()
        raise AssertionError('no tab of Firefox gets the focus')

    def films(self): return nullcontext()  # they are always answered here

    def js(self, function, arg=None):
        got = self.ask('script.callFunction', functionDeclaration=f'async o => JSON.stringify(await ({function})(o))',
                       arguments=[dict(type='string', value=arg) if arg else dict(type='null')], awaitPromise=True,
                       target=dict(context=self.tab))
        assert got['type'] == 'success', got
        return json.loads(got['result'].get('value', 'null'))

    def press(self, key):
        does = [dict(type=kind, value=KEYS.get(key, key)) for kind in ('keyDown', 'keyUp')]
        self.ask('input.performActions', context=self.tab, actions=[dict(type='key', id='keyboard', actions=does)])


@contextmanager
def firefox(folder):
    "A separate Firefox, whose profile is in `folder`"
    if not FIREFOX: pytest.skip('no Firefox here: neither firefox-esr nor firefox is in PATH')
    settings = [f'user_pref({json.dumps(k)}, {json.dumps(v)});\n' for k, v in SETTINGS.items()]
    (folder/'user.js').write_text(''.join(settings))
    command = [FIREFOX, '--headless', '--no-remote', '--profile', folder, '--remote-debugging-port', '0']
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with_port, end = folder/'WebDriverBiDiServer.json', time.monotonic() + 60
        while not (with_port.exists() and with_port.read_text().endswith('}')):
            assert process.poll() is None and time.monotonic() < end, 'Firefox does not start'
            time.sleep(.05)
        at = json.loads(with_port.read_text())
        socket = websocket.create_connection(f"ws://{at['ws_host']}:{at['ws_port']}/session", timeout=60,
                                             suppress_origin=True)
        yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope='module', params=['chromium', 'firefox'])
def window(request, tmp_path_factory):
    "A browser's window as wide as a desk's"
    if request.param == 'firefox':
        with firefox(tmp_path_factory.mktemp('firefox')) as tab: yield tab
    else:
        with chromium(HERE_ALONE) as own, page_of(own, viewport=dict(width=1400, height=900)) as page:
            yield Chromium(page)


in_chromium = pytest.mark.parametrize('window', ['chromium'], indirect=True)


@pytest.fixture
def browser(window):
    "The same, of which nothing is noted yet"
    window.asked.clear()
    window.errors.clear()
    yield window
    window.js('() => localStorage.clear()')  # the theme that was chosen, a menu that was folded


def wait(browser, condition, arg=None):
    "Wait until the page shows it"
    end = time.monotonic() + 60
    while not browser.js(condition, arg):
        assert time.monotonic() < end, (condition, arg)
        time.sleep(.05)


def read_events(browser):
    "Wait until the browser reports a request: the page is ahead of its events"
    end = time.monotonic() + 20
    while not browser.asked and time.monotonic() < end:
        browser.js('() => 1')
        time.sleep(.05)


# Pictures

# Of each picture: what it is, how much smaller it is shown than drawn, how far it sticks out of its column, which share
# of it is transparent, and the contrast of its card, the most frequent colour, with its darkest or brightest ink
PICTURES = """async () => {
    const light = c => {
        const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v/12.92 : ((v + .055)/1.055)**2.4)
        return .05 + .2126*r + .7152*g + .0722*b
    }
    const of = async picture => {
        await picture.decode()
        const [width, height] = [600, Math.round(600*picture.naturalHeight/picture.naturalWidth)]
        const canvas = Object.assign(document.createElement('canvas'), {width, height}).getContext('2d')
        canvas.drawImage(picture, 0, 0, width, height)
        const {data} = canvas.getImageData(0, 0, width, height), counts = new Map()
        let clear = 0, ink = 2
        for (let i = 0; i < data.length; i += 4) {
            const color = data[i] << 16 | data[i+1] << 8 | data[i+2]
            clear += data[i+3] < 250
            counts.set(color, (counts.get(color) ?? 0) + 1)
        }
        const lights = new Map([...counts.keys()].map(c => [c, light([c >> 16, c >> 8 & 255, c & 255])]))
        const card = [...counts].reduce((a, b) => b[1] > a[1] ? b : a)[0]
        const out = picture.getBoundingClientRect().right - picture.parentElement.getBoundingClientRect().right
        return [picture.src, picture.width/picture.naturalWidth, out, clear/(width*height),
                Math.max(lights.get(card)/Math.min(...lights.values()), Math.max(...lights.values())/lights.get(card))]
    }
    return Promise.all([...document.querySelectorAll('.bd-article img')].map(of))
}"""
PAGES = [*SOME, 'nbs/08b_profilers', 'nbs/inside/simulator', 'benchmarks/sim', 'search']


in_firefox_with_all = pytest.mark.parametrize('window', ['chromium', mark_exhaustive('firefox')], indirect=True)


@in_firefox_with_all
def test_pages_fit_consoles_are_quiet_and_pictures_have_cards(browser, site, address):
    "A picture has an opaque card of its own, in the colours of the theme, whatever style sheets do to it"
    shown = 0
    for name in to_visit(site, PAGES):
        browser.go(f'{address}/{name}.html')
        assert browser.js(NOT_SHOWN) == 0 and browser.js(TOO_WIDE) <= 0, name
        for picture, size, out, clear, contrast in browser.js(PICTURES):
            assert size > .7 and out <= .5 and clear < .02 and contrast > 7, (name, picture, size, out, clear, contrast)
            shown += 1
    assert shown > 8 and browser.errors == browser.asked == []


THEME = 't => { for (const k of ["theme", "mode"]) document.documentElement.dataset[k] = t }'
FILTERS = """() => [...document.querySelectorAll('.bd-article img, .bd-article .cell_output svg')].map(
    o => getComputedStyle(o)).map(s => [s.filter, s.mixBlendMode, s.opacity].join())"""


@in_firefox_with_all
def test_themes_leave_pictures_alone(browser, address):
    browser.go(f'{address}/nbs/08a_timing.html')
    for theme in ('light', 'dark'):
        browser.js(THEME, theme)
        assert set(browser.js(FILTERS)) == {'none,normal,1'}, theme


@in_firefox_with_all
def test_columns_of_a_cell_s_table_are_apart(browser, address):
    "Two figures next to each other are not read as one"
    browser.go(f'{address}/nbs/12_latency_and_roofline.html')
    gaps = browser.js("""() => [...document.querySelectorAll('.cell_output td + td')].map(o => {
        const [here, before] = [o, o.previousElementSibling].map(getComputedStyle)
        return parseFloat(before.paddingRight) + parseFloat(here.paddingLeft)
    })""")
    assert len(gaps) > 50 and min(gaps) >= 8


# The keyboard alone

STOPS = """() => {
    const still = document.createElement('style')
    still.textContent = '* { transition: none !important }'
    document.head.append(still)
    const shown = [...document.querySelectorAll('a[href], button, summary, input')].filter(
        o => o.tabIndex >= 0 && !o.disabled && o.checkVisibility({visibilityProperty: true}))
    return shown.map((o, i) => {
        [o.dataset.stop, o.dataset.shadow] = [i, getComputedStyle(o).boxShadow]
        return `${o.outerHTML.slice(0, 150)}`
    })
}"""
# Where the focus is: its number, and what hides it
FOCUS = """() => {
    const o = document.activeElement, style = getComputedStyle(o), box = o.getBoundingClientRect(), hidden = []
    if (!o.dataset.stop) return [o === document.body ? 'page' : 'else', []]
    const ring = [o, ...o.children].map(p => getComputedStyle(p)).some(
        s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0)
    if (!ring && style.boxShadow === o.dataset.shadow) hidden.push('no ring')
    for (let up = o; up; up = up.parentElement) if (getComputedStyle(up).opacity < .5) hidden.push('transparent')
    if (!box.width || box.bottom <= 0 || box.top >= innerHeight) hidden.push('out of sight')
    return [Number(o.dataset.stop), hidden]
}"""


def by_tab(browser, most):
    "What hides the focus at each stop of the Tab key, once around the page"
    found = {}
    for _ in range(most):
        browser.press('Tab')
        at, hidden = browser.js(FOCUS)
        if at in found or (at == 'page' and found): break
        if at not in ('page', 'else'): found[at] = hidden
    return found


@in_firefox_with_all
@pytest.mark.parametrize('name', ['nbs/03_shared_memory', *(['index', 'reference/sim'] if EVERY else [])])
def test_the_tab_key_reaches_everything_and_shows_where_it_is(browser, address, name):
    browser.go(f'{address}/{name}.html')
    stops = browser.js(STOPS)
    found = by_tab(browser, 3*len(stops))
    assert len(stops) > 40 and not (gone := [s for i, s in enumerate(stops) if i not in found]), gone
    assert not any(found.values()), [(stops[i], hidden) for i, hidden in found.items() if hidden]


def enter(browser, selector):
    "Press the Enter key on an element"
    browser.js('s => [...document.querySelectorAll(s)].find(o => o.checkVisibility()).focus()', selector)
    browser.press('Enter')


@in_firefox_with_all
def test_what_the_enter_key_does(browser, address):
    "Folds, copies, changes colours, plays the lecture, which asks for it then and not before, and searches"
    browser.go(f'{address}/nbs/03_shared_memory.html')
    enter(browser, '.bd-article summary')
    wait(browser, '() => document.querySelector(".bd-article summary").parentElement.open')
    enter(browser, 'button.copybtn')
    wait(browser, '() => document.querySelector("button.copybtn").classList.contains("success")')
    enter(browser, '.theme-switch-button')
    for key in ('Tab', 'Tab', 'Tab', 'Enter'): browser.press(key)  # it has three choices
    wait(browser, '() => document.documentElement.dataset.theme === "dark"')
    enter(browser, 'button.primary-toggle')
    wait(browser, '() => document.querySelector(".bd-sidebar-primary").classList.contains("pst-sidebar-hidden")')
    assert browser.asked == browser.errors == []
    with browser.films():
        enter(browser, '.video-start')
        wait(browser, '() => !!document.querySelector(".video-box iframe")')
        read_events(browser)
    assert {url.split('/')[2] for url in browser.asked} == {'www.youtube-nocookie.com'}


MENU = '() => document.querySelector("#pst-primary-sidebar-modal").open'


@in_chromium
def test_the_menu_of_a_narrow_window(browser, address):
    browser.page.set_viewport_size(dict(width=390, height=800))
    browser.go(f'{address}/nbs/03_shared_memory.html')
    enter(browser, 'button.primary-toggle')
    wait(browser, MENU)
    browser.press('Tab')
    assert browser.js('() => !!document.activeElement.closest("#pst-primary-sidebar-modal")')
    browser.press('Escape')
    wait(browser, MENU.replace('=> ', '=> !'))
    browser.page.set_viewport_size(dict(width=1400, height=900))


@in_firefox_with_all
def test_search_by_the_keyboard(browser, address):
    browser.go(f'{address}/index.html')
    enter(browser, '.search-button-field')
    for letter in 'bank conflict': browser.press(letter)
    assert browser.js('() => document.activeElement.value') == 'bank conflict'
    browser.go(f"{address}/{browser.js('() => document.activeElement.form.getAttribute(`action`)')}?q=bank+conflict")
    wait(browser, '() => /Search finished/.test(document.querySelector("#search-results").innerText)')
    assert browser.js('() => !!document.querySelector("ul.search a[href*=\'10_memory\']")')
    assert browser.asked == browser.errors == []


# axe-core

# One token of each look stays where thousands are alike, and all that is folded is shown. Colours change at once: half
# way from light to dark they are those of neither.
THIN = """() => {
    const still = document.createElement('style')
    still.textContent = '*, ::before, ::after { transition: none !important; animation: none !important }'
    document.head.append(still)
    for (const o of document.querySelectorAll('details')) o.open = true
    const looks = new Set()
    for (const o of document.querySelectorAll('pre span:not(:has(*))')) {
        const look = [o.className, o.style.cssText, o.closest('pre').parentElement.className, !!o.closest('details'),
                      o.parentElement.style.cssText].join()
        if (looks.has(look)) o.replaceWith(o.textContent); else looks.add(look)
    }
    document.body.normalize()
}"""
AXE = (importlib.resources.files('axe_playwright_python')/'axe.min.js').read_text(encoding='utf-8')
VIOLATIONS = """async only => {
    const {violations} = await axe.run(document, {resultTypes: ['violations'], ...(only && {runOnly: only})})
    return violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(
        v => [v.id, v.help, v.nodes.length, ...v.nodes.slice(0, 3).map(n => [n.html.slice(0, 150), n.failureSummary])])
}"""
COLORS = ['color-contrast', 'link-in-text-block']
JUDGED = ['index', 'nbs/03_shared_memory', 'messages/assert-fails', 'reference/sim', 'search.html?q=bank+conflict',
          *(['nbs/17a_programs', 'benchmarks/README'] if EVERY else [])]


@in_chromium
@pytest.mark.parametrize('name', [*JUDGED[:3], *map(mark_exhaustive, JUDGED[3:])])
def test_axe_finds_nothing_serious(browser, address, name):
    "All its rules in the light theme, those on colours in the dark one, too"
    browser.go(f'{address}/{name}' if '.html' in name else f'{address}/{name}.html')
    if 'search' in name: wait(browser, '() => !!document.querySelector("ul.search li a")')
    browser.js(THIN)
    browser.js(AXE)
    for theme in ('light', 'dark'):
        browser.js(THEME, theme)
        assert browser.js(VIOLATIONS, COLORS if theme == 'dark' else None) == [], theme
