import '../background.js'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../leaks.js'
import { freePort } from './ports.js'

const file = (port: number) => join(tmpdir(), `holdfast-ports-${userInfo().uid}`, `${port}`)

/** The port that another process is handed, if it draws `first` before it draws at random. */
function otherPort(first: number): number {
  const module = new URL('./ports.js', import.meta.url)
  const script = `
    const random = Math.random
    let drawn = false
    Math.random = () => drawn ? random() : (drawn = true, ${first})
    const { freePort } = await import(${JSON.stringify(module)})
    console.log(await freePort())`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script])
  assert.equal(`${stderr}`, '')
  return Number(stdout)
}

test('a port that one process has is handed to no other, although nobody listens on it', async (t) => {
  const drawn = Math.random()
  const fixed = t.mock.method(Math, 'random', () => drawn)
  const mine = await freePort()
  fixed.mock.restore()
  assert.ok(existsSync(file(mine)))
  const other = otherPort(drawn)
  assert.ok(Number.isSafeInteger(other))
  assert.notEqual(other, mine)
  assert.ok(!existsSync(file(other)), 'its process has ended')
})

after(leakCheck)
