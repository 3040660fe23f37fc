import '../../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import type { Holder, LockStatus, Waiter } from 'holdfast'
import { draw, mostScroll, type Screen, type View } from '../../../src/cli/top/draw.js'
import { pauseAfter, pauseAfterFailure } from '../../../src/cli/top/live.js'
import { chosen, Rates } from '../../../src/cli/top/model.js'
import { initial, type State } from '../../../src/cli/top/state.js'
import { columnsOf } from '../../../src/cli/top/text.js'
import { leakCheck } from '../../support/leaks.js'

after(leakCheck)

const holder = (client: string, heldFor: number, note = ''): Holder => ({
  ...{ attempt: client, mode: { kind: 'exclusive' }, token: heldFor + 1, heldFor, expiresIn: 30_000, client },
  note,
})
const waiter = (client: string, waitedFor: number): Waiter => ({
  ...{ attempt: client, mode: { kind: 'exclusive' }, waitedFor, client },
})
const standing = (name: string, holders: Holder[], waiters: Waiter[] = []): LockStatus => ({
  ...{ name, holders, waiters, lastToken: 1 },
})

const screen: Screen = { columns: 80, lines: 24, style: false }

function shownOf(list: readonly LockStatus[], state: Partial<State> = {}): View {
  const all = new Rates().rows(list, 0)
  const whole = { ...initial, ...state }
  const rows = chosen(all, whole.filter, whole.sort)
  return { store: 'local:', rows, all, state: whole, took: 3, age: 0, every: 2_000, error: undefined }
}

const office = [
  standing('cron:nightly', [holder('web-1:10', 5_000, 'backup')]),
  standing('account:42', [holder('web-2:20', 300)], [waiter('web-1:10', 200), waiter('web-3:30', 100)]),
  standing('idle', []),
]

test('80 × 24 shows who holds, since when, with what note, and how many wait, the most waited for first', () => {
  const lines = draw(shownOf(office), screen)
  assert.equal(lines.length, 24)
  assert.deepEqual(lines.slice(0, 6), [
    'holdfast top  local:  every 2s',
    '3 names  2 held  2 waiting  listed in 3ms',
    'NAME                   WAIT↓      HELD GRANTS/S HELD BY              NOTE',
    'account:42                 2     300ms          web-2:20',
    'cron:nightly               0        5s          web-1:10             backup',
    'idle                       0      free',
  ])
  assert.equal(lines[23], 'Enter look  / filter  s sort  p pause  F force  ? help  q quit')
})

test('no line is wider than the screen, and no screen is too small', () => {
  const wide = '漢字'.repeat(60)
  const list = [standing(wide, [holder(wide, 1, wide)], [waiter(wide, 1)]), ...office]
  for (const columns of [20, 40, 80, 200])
    for (const lines of [3, 6, 24])
      for (const view of ['list', 'one', 'help'] as const) {
        const drawn = draw(shownOf(list, { view, selected: wide }), { columns, lines, style: true })
        assert.equal(drawn.length, lines)
        for (const line of drawn.map(stripVTControlCharacters)) {
          const used = [...line].reduce((sum, char) => sum + (char > '\u2e80' ? 2 : 1), 0)
          assert.ok(used <= columns || columns < 60, `${used} of ${columns}: ${line}`)
        }
      }
})

test('no line is wider than the screen in scripts and pictures that take other columns than characters', () => {
  // Each with its columns in wcwidth of the GNU C library.
  const texts = [
    ['हिन्दी कि', 8],
    ['தமிழ்', 4],
    ['⚡✅⭐❌', 8],
    ['🔒🀄', 4],
    ['각ꥠ', 4],
    ['e\u0301', 1],
  ] as const
  for (const [text, columns] of texts) {
    const list = [standing(text.repeat(60), [holder(text.repeat(60), 1, text.repeat(60))])]
    const [, , , row = ''] = draw(shownOf(list), screen)
    const parts = row.split('…')
    assert.equal(parts.length, 4, `${row}: name, holder and note are cut`)
    // What stands before the first ellipsis has 22 columns at most, as the column of names.
    const [name = ''] = parts
    assert.ok(columnsOf(name) <= 22 && columnsOf(name) > 10, `${columnsOf(name)}: ${name}`)
    assert.equal(columnsOf(text), columns, text)
  }
})

test('escape sequences in names, processes, notes, filters and errors do not reach the terminal', () => {
  const evil = '\x1b[2J\x1b]0;owned\x07\u202e\u009b31m\r\n'
  const list = [standing(`lock${evil}`, [holder(`by${evil}`, 1, `note${evil}`)], [waiter(`w${evil}`, 1)])]
  for (const state of [
    {},
    { view: 'one', selected: `lock${evil}` },
    { asking: 'filter', filter: evil },
    { asking: 'force', selected: `lock${evil}` },
    { message: evil },
    { view: 'one', selected: evil },
  ] as const)
    for (const extra of [{}, { error: evil, store: evil }]) {
      const drawn = draw({ ...shownOf(list, state), ...extra }, screen)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      for (const line of drawn) assert.doesNotMatch(line, /[\x00-\x1f\x7f-\x9f\u202e]/)
    }
})

test('a question says what the keys do, however long the name is', () => {
  for (const name of ['x'.repeat(400), '漢字'.repeat(80), 'a b '.repeat(100)]) {
    const lines = draw(shownOf([standing(name, [])], { asking: 'force', selected: name }), screen)
    assert.equal(lines.length, 24)
    assert.equal(lines[23], 'Its holder may still be at work. y: release, any other key: no')
    assert.ok(
      lines.some((line) => line.startsWith(`Release "${name.slice(0, 4)}`)),
      lines.join('\n'),
    )
  }
  const short = draw(shownOf(office, { asking: 'force', selected: 'idle' }), { ...screen, columns: 100 })
  assert.equal(short[23], 'Release "idle"? Its holder may still be at work. y: release, any other key: no')
})

test('a view of a store with a long URL says that it is paused, and an error is read to its end', () => {
  const store = `postgres://${'host.'.repeat(30)}/db`
  const paused = draw({ ...shownOf(office, { paused: true }), store, age: 12_000 }, screen)
  assert.match(paused[0] ?? '', /^holdfast top {2}postgres:.*… {2}PAUSED, 12s old$/)
  const error = `the store ${'did not answer '.repeat(8)}at all`
  const failed = draw({ ...shownOf(office), error, age: 12_000 }, screen)
  assert.equal(failed.length, 24)
  const text = failed.join(' ').replaceAll(/\s+/g, ' ')
  assert.ok(text.includes(` ${error} (what is shown is 12s old; r asks again) NAME`), text)
})

test('one name is shown whole, with whole notes and processes', () => {
  const [name, note, client] = [
    '漢字 '.repeat(60).trim(),
    'why '.repeat(45).trim(),
    `${'host-'.repeat(12)}:1`,
  ]
  const list = [standing(name, [holder(client, 1_000, note)], [waiter(client, 1)])]
  const lines = draw(shownOf(list, { view: 'one', selected: name }), screen)
  const shown = lines.join(' ').replaceAll(/\s+/g, ' ')
  for (const text of [`"${name}"`, note]) assert.ok(shown.includes(text), `${text} in ${shown}`)
  assert.equal(shown.split(` ${client} `).length, 3, 'that of the holder, and that of the waiter')
})

test('one name shows its holders and the places in its queue, and scrolls', () => {
  const many = Array.from({ length: 50 }, (_, i) => waiter(`w:${i}`, i))
  const list = [standing('m', [holder('web-1:10', 1_000, 'backup')], many)]
  const lines = draw(shownOf(list, { view: 'one', selected: 'm' }), screen)
  assert.match(lines[2] ?? '', /^"m"$/)
  assert.match(lines[4] ?? '', /held +exclusive +1s +30s +web-1:10 +backup$/)
  assert.match(lines[5] ?? '', /^ +token 1001$/)
  assert.match(lines[6] ?? '', /1\. +exclusive +0ms +w:0/)
  const end = draw(shownOf(list, { view: 'one', selected: 'm', scroll: 1_000 }), screen)
  assert.match(end[22] ?? '', /50\. .*w:49/)
  assert.equal(mostScroll(shownOf(list, { view: 'one', selected: 'm' }), screen), 52 - 19)
  const gone = draw(shownOf([], { view: 'one', selected: 'm' }), screen)
  assert.equal(gone[2], '"m" is free, and nobody waits for it')
})

test('the cursor is marked and stays in sight among thousands of names', () => {
  const list = Array.from({ length: 5_000 }, (_, i) => standing(`n${String(i).padStart(4, '0')}`, []))
  const shown = shownOf(list, { sort: 'name', selected: 'n2500' })
  const began = process.cpuUsage()
  const lines = draw(shown, { ...screen, style: true })
  const { user, system } = process.cpuUsage(began)
  assert.ok(user + system < 1_000_000, `${user + system} µs of the processor`)
  assert.equal(lines.filter((line) => line.startsWith('\x1b[7m') && line.includes('n2500')).length, 1)
})

test('grants are counted between two lists: other holders, and other tokens of the same', () => {
  const rates = new Rates()
  const at = (list: LockStatus[], now: number) => rates.rows(list, now).map(({ rate }) => rate)
  assert.deepEqual(at([standing('m', [holder('a', 1)])], 0), [0], 'the first list tells no rate')
  assert.deepEqual(at([standing('m', [holder('a', 1)])], 2_000), [0])
  assert.deepEqual(at([standing('m', [holder('b', 2)])], 4_000), [0.5])
  assert.deepEqual(at([standing('m', [{ ...holder('b', 2), token: 99 }])], 6_000), [0.5])
})

test('filters look at names, processes and notes; each order has ties by name', () => {
  const rows = new Rates().rows(office, 0)
  const names = (filter: string, sort: 'waiting' | 'held' | 'name') =>
    chosen(rows, filter, sort).map(({ name }) => name)
  assert.deepEqual(names('', 'held'), ['cron:nightly', 'account:42', 'idle'])
  assert.deepEqual(names('', 'name'), ['account:42', 'cron:nightly', 'idle'])
  assert.deepEqual(names('BACKUP', 'name'), ['cron:nightly'])
  assert.deepEqual(names('web-2', 'name'), ['account:42'])
})

test('the store spends at most a tenth of its time on lists', () => {
  assert.equal(pauseAfter(10, 2_000), 2_000)
  assert.equal(pauseAfter(1_000, 2_000), 9_000)
})

test('a store that did not answer is asked again within half a minute', () => {
  assert.equal(pauseAfterFailure(10_000, 2_000), 30_000)
  assert.equal(pauseAfterFailure(1_000, 2_000), 9_000)
  assert.equal(pauseAfterFailure(10_000, 60_000), 60_000)
})
