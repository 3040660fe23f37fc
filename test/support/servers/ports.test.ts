import '../background.js'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../leaks.js'
import { freePort } from './ports.js'

const file = (port: number) => join(tmpdir(), `holdfast-ports-${userInfo().uid}`, `${port}`)

interface Drawn {
  readonly port: number
  /** What it drew last, and so got the port. */
  readonly by: number
}

/** The port that another process is handed, if it draws `first` before it draws at random. */
function inOtherProcess(first: number): Drawn {
  const module = new URL('./ports.js', import.meta.url)
  const script = `
    const random = Math.random
    let by
    Math.random = () => (by = by === undefined ? ${first} : random())
    const { freePort } = await import(${JSON.stringify(module)})
    const port = await freePort()
    console.log(JSON.stringify({ port, by }))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script])
  assert.equal(`${stderr}`, '')
  return JSON.parse(`${stdout}`)
}

test('a port that one process has reserved goes to no other, although nobody listens on it', async (t) => {
  const { random } = Math
  let drawn = 0
  const watched = t.mock.method(Math, 'random', () => {
    drawn = random()
    return drawn
  })
  const mine = await freePort()
  watched.mock.restore()
  assert.equal(readFileSync(file(mine), 'utf8'), `${process.pid}`)
  assert.notEqual(inOtherProcess(drawn).port, mine)
})

test('a port of a process that has ended is handed out again', () => {
  const { port, by } = inOtherProcess(Math.random())
  assert.ok(existsSync(file(port)), 'its process has left the file')
  assert.equal(inOtherProcess(by).port, port)
})

after(leakCheck)
