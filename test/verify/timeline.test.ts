import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { check, createHistory, createTimeline, renderSvg, renderText, withSharedScale } from 'holdfast/verify'
import { leakCheck } from '../support/leaks.js'
import { event, held } from './bugs.js'
import { simulate } from './simulate.js'

const waitsThenHolds = [
  ...held('till-1-aaaaaa', '1', [0, 0, 50], { token: 1 }),
  ...held('till-2-bbbbbb', '2', [10, 60, 100], { token: 2 }),
]

describe('a timeline', () => {
  it('draws waits and claims to scale, one row for each client, in a terminal', () => {
    const text = renderText(createTimeline(createHistory(waitsThenHolds), { name: 'x' }), { width: 49 })
    assert.deepEqual(text.split('\n'), [
      'x',
      '',
      'till-1 │▐████████1█████████',
      'till-2 │   ░░░░░░░░░░░░░░░░░░░░▐███████2███████',
      '       └┬──────────────────┬───────────────────┬',
      '        0 ms               50 ms          100 ms',
      '',
      '░ waits   █ holds, with its token',
    ])
  })

  it('marks a violation in the rows it concerns and tells it below', () => {
    const events = [
      ...held('a', '1', [0, 0, 60], { token: 1 }),
      ...held('b', '2', [0, 40, 100], { token: 2 }),
    ]
    const history = createHistory(events)
    const timeline = createTimeline(history, { name: 'x', violations: check(history) })
    const text = renderText(timeline, { width: 49 })
    assert.match(text, /a {6}│▐█+1?█*╳{8}\n/)
    assert.match(text, /b {6}│░+╳{8}/)
    assert.match(text, /╳ +at 40\.0 ms {2}exclusion: "x" was held twice/)
    const svg = renderSvg(timeline)
    assert.equal(svg.match(/class="bad"/g)?.length, 2, 'one for both rows, and the legend')
    assert.match(svg, />2 inside at once, 20\.0 ms</)
  })

  it('marks violations that overlap once, around all of their rows', () => {
    const events = [
      ...held('a', '1', [0, 0, 60], { token: 1 }),
      ...held('b', '2', [0, 10, 70], { token: 2 }),
      ...held('c', '3', [0, 20, 80], { token: 3 }),
      ...held('d', '4', [0, 90, 99], { token: 4 }),
    ]
    const history = createHistory(events)
    const svg = renderSvg(createTimeline(history, { name: 'x', violations: check(history) }))
    assert.equal(svg.match(/class="bad"/g)?.length, 2, 'one, and the legend')
    assert.match(svg, />3 inside at once, 60\.0 ms</)
    const [, height] = /class="bad"[^>]* height="(\d+)"/.exec(svg) ?? []
    assert.equal(height, '88', 'three rows of four')
  })

  it('writes what was counted below the title, and whether it is as it should be', () => {
    const summary = { text: '156 requests <for> 10', good: false }
    const svg = renderSvg(createTimeline(createHistory(waitsThenHolds), { name: 'x', summary }))
    assertWellFormed(svg)
    assert.match(svg, /class="figure bad-text"[^>]*>✗ 156 requests &lt;for&gt; 10</)
  })

  it('puts both halves of a comparison on one scale', () => {
    const short = createTimeline(createHistory(held('a', '1', [0, 0, 50], { token: 1 })), { name: 'x' })
    const long = createTimeline(createHistory(held('a', '1', [0, 0, 200], { token: 1 })), { name: 'x' })
    const widths = withSharedScale([short, long]).map((timeline) =>
      Number(/class="exclusive"[^>]* width="([\d.]+)"/.exec(renderSvg(timeline))?.[1]),
    )
    assert.ok(Math.abs((widths[1] ?? 0) / (widths[0] ?? 1) - 4) < 0.01, `${widths}`)
  })

  it('labels a quarantine, and takes it for no fault', () => {
    const events = [
      ...waitsThenHolds,
      event(20, 'n', 'q', { op: 'fault', phase: 'invoke', kind: 'quarantine' }),
      event(50, 'n', 'q', { op: 'fault', phase: 'ok', kind: 'quarantine' }),
    ]
    const svg = renderSvg(createTimeline(createHistory(events), { name: 'x' }))
    assert.match(svg, />quarantine: the store grants nothing</)
    assert.doesNotMatch(svg, /class="(?:fault|during|everybody)"/)
  })

  it('keeps its axis labels inside the picture, and shows a token beside a bar that is too short for it', () => {
    const events = held('a', '1', [0, 0, 1], { token: 4711 })
    const later = held('b', '2', [0, 900, 1_000], { token: 4712 })
    const svg = renderSvg(createTimeline(createHistory([...events, ...later]), { name: 'x' }))
    assert.match(svg, /text-anchor="start">0 ms</)
    assert.match(svg, /text-anchor="end">1000 ms</)
    assert.match(svg, /class="beside"[^>]*>4711</)
    assert.match(svg, /class="token"[^>]*>4712</)
  })

  it('shows what was done to one process in its row and what was done to all below', () => {
    const events = [
      ...waitsThenHolds,
      event(20, 'n', 'k', { op: 'fault', phase: 'invoke', kind: 'pause', target: waitsThenHolds[0]!.pid }),
      event(30, 'n', 'k', { op: 'fault', phase: 'ok', kind: 'pause', target: waitsThenHolds[0]!.pid }),
      event(40, 'n', 'r', { op: 'fault', phase: 'invoke', kind: 'restart' }),
    ]
    const text = renderText(createTimeline(createHistory(events), { name: 'x' }), { width: 49 })
    assert.match(text, /till-1 │▐█{6}▼/)
    assert.match(text, /faults │ {15,16}▼/)
    assert.match(text, /▼ +at 20\.0 ms {2}pause till-1 for 10\.0 ms/)
    assert.match(text, /▼ +at 40\.0 ms {2}restart/)
  })

  it('tells killed, lost and released holders apart', () => {
    const killed = held('a', '1', [0, 0, 60], { token: 1 }).slice(0, 2)
    const kill = event(10, 'n', 'k', { op: 'fault', phase: 'invoke', kind: 'kill', target: killed[0]!.pid })
    const lost = [...held('b', '2', [0, 20, 90], { token: 2, until: 30 })]
    const timeline = createTimeline(createHistory([...killed, kill, ...lost]), { name: 'x' })
    const ends = timeline.rows.flatMap((row) =>
      row.bars.filter((bar) => bar.kind !== 'waiting').map((bar) => bar.end),
    )
    assert.deepEqual(ends, ['killed', 'lost'])
    assert.match(renderText(timeline), /✝ killed/)
    assert.match(renderText(timeline), /! lost/)
    assert.match(renderSvg(timeline), /<path class="killed"/)
  })

  it('numbers tokens that are too long to be read', () => {
    const long = 1_763_721_000_000_000
    const events = [
      ...held('a', '1', [0, 0, 50], { token: long }),
      ...held('b', '2', [0, 60, 100], { token: long + 70_000 }),
    ]
    const text = renderText(createTimeline(createHistory(events), { name: 'x' }), { width: 60 })
    assert.match(text, /#1█/)
    assert.match(text, /#2█/)
    assert.match(text, /#1 is 1763721000000000/)
  })

  it('is well-formed SVG whatever the names are', () => {
    const name = '<script>"&\u0000</svg>'
    const events = held('a', '1', [0, 1, 50], { token: 1, name })
    const svg = renderSvg(createTimeline(createHistory(events), { name, label: () => '"><b>' }))
    assertWellFormed(svg)
    assert.ok(!svg.includes('<script>'))
    assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox=/)
    for (let seed = 1; seed < 20; seed++) {
      const history = createHistory(simulate({ seed, steps: 400 }))
      for (const name of ['a', 'rw', 'sem']) assertWellFormed(renderSvg(createTimeline(history, { name })))
    }
  })

  it('is well-formed SVG whatever a history file says of kinds and targets', () => {
    const [first, ...rest] = held('a', '1', [0, 1, 50], { token: 1 })
    const kind = 'x"><script>alert(1)</script>' as 'exclusive'
    const strange = [
      { ...first!, mode: kind, kind },
      ...rest,
      event(20, 'n', 'k', { op: 'fault', phase: 'invoke', kind: 7 as unknown as string }),
    ]
    const svg = renderSvg(createTimeline(createHistory(strange), { name: 'x' }))
    assertWellFormed(svg)
    assert.ok(!svg.includes('<script>'))
  })

  it('repeats itself in colour without another character', () => {
    const timeline = createTimeline(createHistory(waitsThenHolds), { name: 'x' })
    const esc = String.fromCharCode(27)
    const colored = renderText(timeline, { color: true })
    assert.ok(colored.includes(`${esc}[36m`))
    assert.equal(colored.replaceAll(new RegExp(`${esc}\\[[0-9;]*m`, 'g'), ''), renderText(timeline))
  })

  it('draws an empty history', () => {
    const timeline = createTimeline(createHistory([]), { name: 'x' })
    assert.match(renderText(timeline), /^x\n/)
    assertWellFormed(renderSvg(timeline))
  })
})

function assertWellFormed(xml: string): void {
  const open: string[] = []
  const rest = xml.replace(/<style>[^<]*<\/style>/, '')
  for (const [, close, tag, attributes, empty] of rest.matchAll(
    /<(\/?)([a-z]+)((?: [a-zA-Z:0-9-]+="[^"<&]*")*)(\/?)>/g,
  )) {
    assert.ok(attributes !== undefined)
    if (close) assert.equal(open.pop(), tag)
    else if (!empty) open.push(tag!)
  }
  assert.deepEqual(open, [])
  const text = rest.replace(/<\/?[a-z]+(?: [a-zA-Z:0-9-]+="[^"<&]*")*\/?>/g, '')
  assert.doesNotMatch(text, /[<>]|&(?!(?:amp|lt|gt|quot);)/)
  assert.doesNotMatch(xml.replaceAll('\n', ''), /\p{Cc}/u)
  assert.doesNotMatch(xml, /NaN|Infinity|undefined/)
}

after(leakCheck)
