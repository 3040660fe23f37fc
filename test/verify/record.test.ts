import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { memoryRecorder, readHistory, recorder } from 'holdfast/verify'
import { leakCheck } from '../support/leaks.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-record-'))
after(() => rmSync(folder, { recursive: true }))

describe('the recorder', () => {
  it('writes events that are read back with times counted from the first', () => {
    const path = join(folder, 'plain.jsonl')
    const one = recorder(path, { label: 'till' })
    const start = one.now()
    one.write({ op: 'acquire', phase: 'invoke', name: 'x', attempt: '1', mode: 'exclusive' }, start)
    one.write(
      { op: 'acquire', phase: 'ok', name: 'x', attempt: '1', token: 7, until: start + 5_000n },
      start + 1_000n,
    )
    one.close()
    one.write({ op: 'release', phase: 'invoke', name: 'x', attempt: '1' })
    const { events, acquisitions } = readHistory(path)
    const common = { pid: process.pid, client: one.client, name: 'x', attempt: '1' }
    assert.deepEqual(events, [
      { t: 0, ...common, op: 'acquire', phase: 'invoke', mode: 'exclusive' },
      { t: 1_000, ...common, op: 'acquire', phase: 'ok', token: 7, until: 5_000 },
    ])
    assert.match(one.client, new RegExp(`^till-${process.pid}-`))
    assert.equal(acquisitions.length, 1)
  })

  it('joins files and folders into one history in order of time', () => {
    const first = recorder(join(folder, 'b.jsonl'))
    const second = recorder(join(folder, 'a.jsonl'))
    const t = first.now()
    first.write({ op: 'read', phase: 'ok', name: 'late', attempt: '1' }, t + 10n)
    second.write({ op: 'read', phase: 'ok', name: 'early', attempt: '2' }, t)
    first.close()
    second.close()
    const both = readHistory(join(folder, 'b.jsonl'), join(folder, 'a.jsonl'))
    assert.deepEqual(
      both.events.map((event) => event.name),
      ['early', 'late'],
    )
    assert.ok(readHistory(folder).events.length >= 4)
  })

  it('tolerates a torn last line and nothing else', () => {
    const path = join(folder, 'torn')
    const one = recorder(path)
    one.write({ op: 'read', phase: 'ok', name: 'x', attempt: '1' })
    one.close()
    const whole = readFileSync(path, 'utf8')
    appendFileSync(path, whole.slice(0, 30))
    assert.equal(readHistory(path).events.length, 1)
    writeFileSync(path, `${whole.slice(0, 30)}\n${whole}`)
    assert.throws(() => readHistory(path), { name: 'SyntaxError', message: /torn:1 is not an event/ })
  })

  it('leaves everything that was written before a kill -9', async () => {
    const path = join(folder, 'killed')
    const script = `
      import { recorder } from ${JSON.stringify(import.meta.resolve('holdfast/verify'))}
      const one = recorder(${JSON.stringify(path)})
      for (let i = 0; i < 1000; i++) one.write({ op: 'read', phase: 'ok', name: 'x', attempt: String(i) })
      process.kill(process.pid, 'SIGKILL')`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' })
    const [, signal] = await once(child, 'exit')
    assert.equal(signal, 'SIGKILL')
    const { events } = readHistory(path)
    assert.equal(events.length, 1000)
    assert.equal(events[999]?.attempt, '999')
  })

  it('marks the begin and the end of a fault', () => {
    const one = memoryRecorder()
    const end = one.fault('pause', 4711)
    end()
    const { events } = one.history()
    assert.deepEqual(
      events.map(({ op, phase, kind, target }) => ({ op, phase, kind, target })),
      [
        { op: 'fault', phase: 'invoke', kind: 'pause', target: 4711 },
        { op: 'fault', phase: 'ok', kind: 'pause', target: 4711 },
      ],
    )
    assert.equal(events[0]?.attempt, events[1]?.attempt)
  })

  it('keeps an empty history', () => {
    const { events, acquisitions, end } = memoryRecorder().history()
    assert.deepEqual({ events, acquisitions, end }, { events: [], acquisitions: [], end: 0 })
  })
})

after(leakCheck)
