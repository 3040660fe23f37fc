import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { exclusive, permits, shared } from '../../../src/core/mode.js'
import { openJournal, readJournal } from '../../../src/drivers/local/journal.js'
import {
  type JournaledHold,
  type JournalState,
  parseBroker,
  parseJournal,
  toLines,
} from '../../../src/drivers/local/journal-lines.js'
import { thisProcess } from '../../../src/drivers/local/processes.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

const here = thisProcess()
const empty = { lines: '', floor: 0 }

function held(attempt: string, more: Partial<JournaledHold['hold']> = {}): JournaledHold {
  const hold = {
    attempt,
    mode: exclusive,
    ttl: 100,
    token: 5,
    upTo: 9,
    note: undefined,
    client: undefined,
    ...more,
  }
  return { name: `name of ${attempt}`, hold, client: 'c', identity: here }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** What an empty journal tells, and `more`. */
const told = (more: Partial<JournalState> = {}): JournalState => ({
  floor: 0,
  holds: [],
  ended: [],
  cells: [],
  boot: here.boot,
  longest: 0,
  damage: undefined,
  quarantine: undefined,
  ...more,
})

test('a missing journal is an empty one', () => {
  assert.deepEqual(readJournal(freshDirectory()), told({ boot: '' }))
})

test('holds that were granted and not ended are read back unchanged', () => {
  const directory = freshDirectory()
  const journal = openJournal(directory, here, { lines: '', floor: 3 })
  const holds = [
    held('a', { note: 'with "quotes", 名前', client: 'host:1' }),
    held('b', { mode: shared, token: 12, upTo: 12 }),
    held('c', { mode: permits(2, 3), token: 20, upTo: 20 }),
  ]
  for (const one of holds) journal.append(toLines.granted(one))
  assert.deepEqual(readJournal(directory), told({ floor: 20, holds, longest: 100 }))
  journal.append(toLines.ended('name of a', 'a', true) + toLines.ended('name of b', 'b', false))
  const rest = readJournal(directory)
  assert.deepEqual(rest.holds, [holds[2]])
  assert.deepEqual(rest.ended, [{ name: 'name of a', attempt: 'a' }])
  journal.close()
})

test('a downgrade and a longer ttl are read back', () => {
  const directory = freshDirectory()
  const journal = openJournal(directory, here, empty)
  const { name, hold } = held('a')
  const full = { ...hold, since: 0, expires: 0 }
  journal.append(toLines.granted(held('a')))
  journal.append(toLines.downgraded(name, { ...full, mode: shared, token: 7 }))
  journal.append(toLines.longer(name, { ...full, ttl: 5000 }))
  const [read] = readJournal(directory).holds
  assert.deepEqual(read?.hold, { ...hold, mode: shared, token: 7, upTo: 7, ttl: 5000 })
  journal.close()
})

test('the floor outlives the holds it came from', () => {
  const directory = freshDirectory()
  const journal = openJournal(directory, here, empty)
  journal.append(toLines.granted(held('a', { token: 1000, upTo: 2000 })))
  journal.append(toLines.ended('name of a', 'a', true))
  assert.equal(readJournal(directory).floor, 2000)
  journal.close()
})

test('a journal truncated anywhere yields its complete lines', () => {
  const directory = freshDirectory()
  const journal = openJournal(directory, here, empty)
  for (const attempt of ['a', 'b', 'c']) journal.append(toLines.granted(held(attempt)))
  journal.append(toLines.ended('name of b', 'b', true))
  journal.close()
  const file = join(directory, 'journal')
  const text = readFileSync(file, 'utf8')
  const after = freshDirectory()
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: text.length }),
      fc.constantFrom('', '\0\0\0', '\n["g"'),
      (cut, junk) => {
        writeFileSync(join(after, 'journal'), text.slice(0, cut) + junk)
        const whole = text.slice(0, cut).split('\n').slice(0, -1).length
        // A line whose newline alone is missing is as good as whole: nothing more was going to be in it.
        const last = `${text.slice(0, cut).split('\n').at(-1)}${junk.split('\n')[0]}`
        const lines = isJson(last) ? whole + 1 : whole
        const expected = [[], [], ['a'], ['a', 'b'], ['a', 'b', 'c'], ['a', 'c']][lines]
        assert.deepEqual(
          readJournal(after).holds.map(({ hold }) => hold.attempt),
          expected,
        )
      },
    ),
    { numRuns: 1000 },
  )
})

/** A line of every kind, as a broker writes them. */
function everyKind(): string {
  const { name, hold } = held('a')
  const full = { ...hold, since: 0, expires: 0 }
  const ends = (attempt: string, byClient: boolean) =>
    toLines.granted(held(attempt)) + toLines.ended(`name of ${attempt}`, attempt, byClient)
  return [
    toLines.header(here, 3),
    toLines.quarantine({ until: 5_000, ttl: 700, why: 'line 3 of the journal was damaged' }),
    toLines.longest(500),
    toLines.granted(held('a', { note: 'with "quotes", 名前', client: 'host:1' })),
    toLines.granted(held('b', { mode: permits(2, 3), token: 12, upTo: 12, ttl: 500 })),
    toLines.longest(900),
    toLines.longer(name, { ...full, ttl: 900 }),
    toLines.downgraded(name, { ...full, token: 7 }),
    ends('c', true),
    ends('d', false),
    toLines.cell('key', { version: 30, value: 'value', expires: 0, id: 'id' }, 9_000),
    toLines.granted(held('last')),
  ].join('')
}

test('whichever single bit of it is flipped, it tells what it told, or that it is damaged, and the longest ttl in any case', () => {
  const bytes = Buffer.from(everyKind())
  const { damage: none, ...whole } = parseJournal(String(bytes))
  const before = JSON.stringify(whole)
  assert.deepEqual([none, whole.longest, whole.holds.length], [undefined, 900, 3])
  let hidden = 0
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const flip = () => bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
    flip()
    const { damage, ...state } = parseJournal(String(bytes))
    assert.ok(damage !== undefined || JSON.stringify(state) === before, `bit ${bit}: ${bytes}`)
    assert.equal(state.longest, 900, `bit ${bit}`)
    const { pid } = parseBroker(String(bytes)) ?? {}
    assert.ok(pid === here.pid || (pid === 0 && state.boot === ''), `bit ${bit}: broker ${pid}`)
    hidden += damage === undefined ? 1 : 0
    flip()
  }
  // Those of the last newline.
  assert.equal(hidden, 8)
})

test('a line that is cut off at the end is no damage; before the end it is, and so are zeros', () => {
  const text = everyKind()
  const rows = text.split('\n').slice(0, -1)
  const [last = '', others] = [rows.at(-1), `${rows.slice(0, -1).join('\n')}\n`]
  const damaged = (more: string) => parseJournal(others + more).damage
  for (let cut = 0; cut <= last.length; cut++) {
    assert.equal(damaged(last.slice(0, cut)), undefined)
    if (cut > 0 && cut < last.length)
      assert.equal(damaged(`${last.slice(0, cut)}\n${last}\n`), `line ${rows.length}`)
  }
  assert.equal(damaged('\0\0\0'), `line ${rows.length}`)
  assert.equal(parseJournal('\0\0\0').damage, 'line 1')
  assert.equal(parseJournal(text.slice(0, 9)).damage, 'line 1')
})

test('a journal without checksums, of an earlier version, tells the same', () => {
  const text = everyKind()
  const lines = text.split('\n').filter((line) => line !== '')
  const plain = lines
    .map((line) => JSON.parse(line).slice(0, -1))
    .map(([kind, ...rest]) => {
      if (kind === 'v') rest[0] = 1
      return `${JSON.stringify([kind, ...rest])}\n`
    })
  const { quarantine: _, ...state } = parseJournal(text)
  const older = plain.filter((line) => !/^\["[lq]"/.test(line)).join('')
  assert.deepEqual(parseJournal(older), { ...state, quarantine: undefined })
  assert.equal(parseJournal(`${older}["g","torn`).damage, undefined)
  assert.match(`${parseJournal(older.replace('["r"', '["r')).damage}`, /^line \d+$/)
})

test('a new one replaces the old one as a whole, and writes to the old one are ignored', () => {
  const directory = freshDirectory()
  const old = openJournal(directory, here, empty)
  old.append(toLines.granted(held('a')))
  const next = openJournal(directory, here, { lines: toLines.granted(held('b')), floor: 7 })
  assert.equal(old.changed, true)
  assert.equal(next.changed, false)
  old.append(toLines.granted(held('stale')))
  const { holds, floor } = readJournal(directory)
  assert.deepEqual(
    holds.map(({ hold }) => hold.attempt),
    ['b'],
  )
  assert.equal(floor, 9)
  assert.deepEqual(readdirSync(directory), ['journal'])
  old.close()
  next.close()
})

test('it is large when much of it is no longer true, and small again after a rewrite', () => {
  const directory = freshDirectory()
  const journal = openJournal(directory, here, empty)
  for (let i = 0; !journal.large; i++) {
    assert.ok(i < 10_000)
    journal.append(toLines.granted(held(`a${i}`)) + toLines.ended(`name of a${i}`, `a${i}`, true))
  }
  assert.equal(journal.rewrite({ lines: toLines.granted(held('kept')), floor: 1 }), true)
  assert.equal(journal.large, false)
  assert.equal(readJournal(directory).holds.length, 1)
  journal.append(toLines.ended('name of kept', 'kept', true))
  assert.equal(readJournal(directory).holds.length, 0)
  journal.close()
})

test('a rewrite that fails leaves the old file in use', () => {
  const directory = freshDirectory()
  let isBroker = true
  const journal = openJournal(directory, here, empty, () => isBroker)
  journal.append(toLines.granted(held('a')))
  // A journal that may be another broker's is not replaced.
  isBroker = false
  assert.equal(journal.rewrite(empty), false)
  journal.append(toLines.granted(held('b')))
  assert.equal(readJournal(directory).holds.length, 2)
  assert.deepEqual(readdirSync(directory), ['journal'])
  journal.close()
})

test('where its own file cannot be written, nothing is written into that of an earlier broker', () => {
  const directory = freshDirectory()
  const module = new URL('../../../src/drivers/local/journal.js', import.meta.url).href
  const script = `import { openJournal } from ${JSON.stringify(module)}
    const snapshot = { lines: JSON.stringify(['n'.repeat(5_000)]) + '\\n', floor: 0 }
    try {
      openJournal(${JSON.stringify(directory)}, ${JSON.stringify(here)}, snapshot).append('')
    } catch ({ code }) {
      console.log(code)
    }`
  openJournal(directory, here, { lines: toLines.granted(held('a')), floor: 5 }).close()
  const text = () => readFileSync(join(directory, 'journal'), 'utf8')
  const before = text()
  // What comes after one or two kilobytes fails with EFBIG.
  const limited = 'ulimit -f 2; exec "$0" --input-type=module -e "$1"'
  const { stdout } = spawnSync('sh', ['-c', limited, process.execPath, script])
  assert.deepEqual([String(stdout).trim(), text()], ['EFBIG', before])
  assert.deepEqual(readdirSync(directory), ['journal'])
})

after(async () => {
  await endAll()
  await leakCheck()
})
